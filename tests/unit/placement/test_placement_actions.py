"""One placement action at a time: reserve, stop, move, and each way in which that fails."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import texts
from samza_dagster.placement.state import Limits, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from samza_dagster.simulation.steps import handle
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit

RESERVING = ("IN_PROGRESS", texts.RESOURCES_REQUESTED)
STOPPING = ("IN_PROGRESS", texts.STOP_IN_PROGRESS)


def order(world: Scene) -> list[str]:
    """The effects that matter, by name."""
    kinds = (cmd.RequestResource, cmd.StopContainer, cmd.StartContainer)
    return [type(command).__name__ for command in world.log if isinstance(command, kinds)]


def test_a_move_reserves_then_stops_then_starts() -> None:
    """And nothing else is asked of the cluster."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.settle()
    assert order(world) == ["RequestResource", "StopContainer", "StartContainer"]
    assert world.where("0") == world.locality()["0"] == "host-3"


def test_the_request_record_is_deleted_in_the_step_that_takes_it() -> None:
    """Deletion and first response are one commit."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert world.brokers.topic == {}
    assert world.told("u1") == [RESERVING]


def test_a_container_is_not_touched_before_the_destination_is_held() -> None:
    """It runs on while the request is open."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert world.sent(cmd.StopContainer) == []
    assert world.phases()["0"] is Phase.RUNNING


def test_a_reservation_that_expires_leaves_the_container_untouched() -> None:
    """Same process, FAILED with the cluster's reason."""
    world = running()
    before = world.entry("0").execution_id
    world.submit(ask("0", "host-3"))
    world.expire("0")
    world.settle()
    assert world.told("u1") == [RESERVING, ("FAILED", texts.expired("no host has room"))]
    assert world.entry("0").execution_id == before


def test_a_request_for_any_host_that_expires_tells_which_rule_left_which_host_out() -> None:
    """The cluster can't know it: its own words come first, the heart's after them."""
    world = running()
    world.submit(ask("0", "ANY_HOST"))
    world.expire("0")
    _, why = world.outcome()
    assert why == texts.expired(
        "no host has room; left out: host-1: 0 is there, and another host was asked for"
        " | host-2: same-host: 0-0 of the same group is running on host-2; "
        "move 0-0 to another host first"
    )


def test_a_cluster_that_never_answers_is_given_up_by_the_heart() -> None:
    """A margin after the request's own expiry."""
    world = running()
    world.submit(ask("0", "host-3", expiry_ms=9_000))
    world.leader.requests.pending.clear()
    before = world.now_ms
    world.until(lambda: world.action("0") is None)
    assert world.now_ms == before + 10_000
    assert world.told("u1")[-1][0] == "FAILED"


def test_the_requests_own_expiry_goes_to_the_cluster() -> None:
    """In place of the job's default."""
    world = running()
    world.submit(ask("0", "host-3", expiry_ms=9_000))
    assert [r.expires_in_ms for r in world.sent(cmd.RequestResource)] == [9_000]


def test_success_waits_for_the_check_in() -> None:
    """A launched process is not yet a container that runs."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.trouble("host-3", Trouble.NO_CHECK_IN)
    world.until(lambda: world.where("0") == "host-3")
    assert world.told("u1") == [RESERVING, STOPPING]
    world.settle()
    assert world.told("u1")[-1] == ("SUCCEEDED", texts.started("host-3"))


@pytest.mark.parametrize("how", ["start fails", "dies before it checks in"])
def test_a_failed_start_goes_back_to_the_source(how: str) -> None:
    """FAILED at once, and the group stays locked until the container runs again."""
    world = running()
    starts = how == "start fails"
    world.trouble("host-3", Trouble.NO_START if starts else Trouble.NO_CHECK_IN)
    world.submit(ask("0", "host-3"))
    if not starts:
        world.until(lambda: world.where("0") == "host-3")
        world.crash("0")
    world.until(lambda: world.stage("0") is Stage.FALLBACK_SOURCE)
    failed = ("FAILED", texts.start_failed("host-3", "host-1"))
    assert world.told("u1") == [RESERVING, STOPPING, failed]
    world.submit(ask("0-0", "host-4", uuid="u2"))
    assert world.told("u2")[0][0] == "ACCEPTED"
    world.until(lambda: world.phases()["0"] is Phase.RUNNING)
    assert world.where("0") == "host-1"
    world.settle()
    assert world.told("u2")[-1] == ("SUCCEEDED", texts.started("host-4"))


def test_a_start_that_never_checks_in_is_stopped_first_and_its_death_awaited() -> None:
    """Only then is the source host asked for."""
    world = running(limits=Limits(start_timeout_ms=7_000))
    world.trouble("host-3", Trouble.NO_CHECK_IN)
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.where("0") == "host-3" and not world.moves())
    asked = len(world.sent(cmd.RequestResource))
    started = world.now_ms
    assert world.do(Move("tick"))
    assert world.now_ms == started + 7_000
    assert world.phases()["0"] is Phase.STOPPING
    assert len(world.sent(cmd.RequestResource)) == asked
    world.until(lambda: world.where("0") == "host-1")
    assert world.told("u1")[-1] == ("FAILED", texts.start_failed("host-3", "host-1"))


def test_a_source_that_is_full_meanwhile_makes_it_fail_over() -> None:
    """Its standby's host has its state; the standby then goes to a host that is legal."""
    world = running()
    world.trouble("host-3", Trouble.NO_START)
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.stage("0") is Stage.FALLBACK_SOURCE)
    world.expire("0")
    world.until(lambda: world.stage("0") is Stage.FALLBACK_ANY)
    assert world.sent(cmd.RequestResource)[-1].host == "host-2"
    world.settle()
    assert world.where("0") == "host-2"
    assert world.phases()["0-0"] is Phase.RUNNING


def test_without_standbys_a_source_that_is_full_meanwhile_makes_it_any_legal_host() -> None:
    """The last resort of a failed move."""
    world = running(groups={"0": ("0",), "1": ("1",)})
    world.trouble("host-3", Trouble.NO_START)
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.stage("0") is Stage.FALLBACK_SOURCE)
    world.expire("0")
    world.until(lambda: world.stage("0") is Stage.FALLBACK_ANY)
    assert world.sent(cmd.RequestResource)[-1].host is None
    world.settle()
    assert world.phases()["0"] is Phase.RUNNING


def test_a_stop_that_fails_leaves_it_running_and_gives_the_reservation_back() -> None:
    """FAILED names the host where it lives on."""
    world = running()
    before = world.entry("0").execution_id
    world.trouble("host-1", Trouble.STUBBORN)
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.action("0") is None)
    assert world.told("u1")[-1] == ("FAILED", texts.stop_failed("host-1"))
    world.until(lambda: not world.moves())
    assert world.held_resources() == {}
    assert world.entry("0").execution_id == before
    assert world.phases()["0"] is Phase.RUNNING


def test_a_container_that_dies_while_its_destination_is_asked_for_starts_there() -> None:
    """The death is part of the move: no stop, one start."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.crash("0")
    world.settle()
    assert world.sent(cmd.StopContainer) == []
    assert world.where("0") == "host-3"
    assert world.told("u1") == [RESERVING, ("SUCCEEDED", texts.started("host-3"))]


def test_a_container_that_died_and_has_no_destination_goes_back() -> None:
    """Expiry with the container down falls back to its source."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.crash("0")
    world.until(lambda: world.phases()["0"] is Phase.WAITING)
    world.expire("0")
    world.settle()
    assert world.told("u1")[-1][0] == "FAILED"
    assert world.where("0") == "host-1"


def test_any_host_is_another_host_and_legal() -> None:
    """Neither where it is nor where another member of the group is."""
    world = running()
    world.submit(ask("0", "ANY_HOST"))
    assert world.sent(cmd.RequestResource)[0].excluded_hosts == ("host-1", "host-2")
    world.settle()
    assert world.where("0") in ("host-3", "host-4")


def test_an_allocation_that_became_illegal_is_asked_anew_before_any_stop() -> None:
    """The standby got that host first; the move goes on to another."""
    world = running(groups={"0": ("0", "0-0")}, places={"0": "host-1", "0-0": "host-2"})
    world.fill("host-3")
    world.fill("host-4")
    world.submit(ask("0", "ANY_HOST"))
    first = world.sent(cmd.RequestResource)[0].request_id
    world.leader.requests.pending.clear()
    world.fill("host-2")
    world.crash("0-0")
    world.until_phase("0-0", Phase.REQUESTING)
    world.expire("0-0")
    world.make_room("host-3")
    world.until_phase("0-0", Phase.RUNNING)
    taken = world.where("0-0")
    handle(world, ev.ResourceAllocated(world.now_ms, first, str(taken)))
    again = world.sent(cmd.RequestResource)[-1]
    assert taken in again.excluded_hosts
    assert cmd.ReleaseResource(first) in world.log
    assert "0" not in world.stopped()
    world.settle()
    assert world.told("u1")[-1][0] == "SUCCEEDED"
    assert world.where("0") not in (None, "host-1", taken)


def test_responses_echo_the_request() -> None:
    """Destination and expiry as they were asked, the processor, the deployment."""
    world = running()
    world.submit(ask("0", "LAST_SEEN", expiry_ms=7_000))
    [response] = world.sent(cmd.WriteResponse)
    assert (response.destination_host, response.request_expiry_ms) == ("LAST_SEEN", 7_000)
    assert (response.processor_id, response.deployment_id) == ("0", "run-1")


def test_a_stop_that_nobody_answers_is_asked_again_after_half_a_minute() -> None:
    """By the same execution id."""
    world = running()
    world.trouble("host-1", Trouble.SLOW_STOP)
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.stopped() == ["0"])
    began = world.now_ms
    world.until(lambda: world.stopped() == ["0", "0"])
    first, second = world.sent(cmd.StopContainer)
    assert (first, world.now_ms) == (second, began + 30_000)
