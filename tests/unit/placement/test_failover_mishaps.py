"""What goes wrong in the middle of a failover, and what becomes of the active."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Ended, Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def failing_over(*, replicas: bool = False, slots: int = 4, stubborn: bool = False) -> Scene:
    """The standby was told to give way, and nothing has come of it yet."""
    world = running(
        PLACES if replicas else None,
        groups=REPLICAS if replicas else None,
        limits=QUICK,
        slots=slots,
    )
    world.trouble("host-2", Trouble.STUBBORN if stubborn else Trouble.SLOW_STOP)
    world.evict("0")
    world.until(lambda: world.group().failover is not None)
    return world


def flapping_active() -> Scene:
    """It has died once too often, and is given time."""
    world = running(limits=Limits(host_timeout_ms=10_000, retry_count=1, retry_window_ms=10**6))
    for _ in range(2):
        world.until_all_run()
        world.crash("0")
        world.until(lambda: world.phases()["0"] is not Phase.RUNNING)
    assert world.phases()["0"] is Phase.WAITING
    return world


def test_a_standby_that_dies_by_itself_has_given_way() -> None:
    """Its death is what was waited for, whoever caused it."""
    world = failing_over()
    world.crash("0-0")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"


def test_when_the_standby_survives_its_stop_the_active_goes_elsewhere() -> None:
    """The process holds the store directory; it is a standby again, where it was."""
    world = failing_over(stubborn=True)
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") in ("host-3", "host-4")
    assert world.phases()["0-0"] is Phase.RUNNING
    assert (world.placed("0-0"), world.locality()["0-0"]) == ("host-2", "host-2")


def test_when_one_standby_survives_its_stop_the_next_one_gives_way() -> None:
    """N replicas are N chances."""
    world = failing_over(replicas=True, stubborn=True)
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-3"


def test_when_the_standbys_host_is_lost_before_it_was_seen_dead_the_active_goes_elsewhere() -> None:
    """Nobody can say whether the store directory is free there."""
    world = failing_over()
    world.lose("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") in ("host-3", "host-4")
    assert world.group().ghosts[0].processor_id == "0-0"


def test_when_the_standbys_host_is_lost_the_next_standby_gives_way() -> None:
    """It is asked at once."""
    world = failing_over(replicas=True)
    world.lose("host-2")
    assert world.stopped() == ["0-0", "0-1"]
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-3"


def test_a_host_that_is_lost_after_the_standbys_death_costs_the_place_alone() -> None:
    """What was reserved there goes with it; any host is asked for."""
    world = failing_over()
    world.fill("host-2")
    world.crash("0-0")
    world.until_phase("0-0", Phase.RUNNING)
    world.lose("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") in ("host-3", "host-4")


def test_when_the_place_is_stolen_the_active_goes_to_any_host() -> None:
    """SEP-22's stolen host: another job is in it before the request is."""
    world = failing_over(slots=1)
    for host in ("host-3", "host-4"):
        world.hosts[host].memory_mb, world.hosts[host].cores = 1_536, 4
    world.crash("0-0")
    world.fill("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") in ("host-3", "host-4")
    assert world.asked_for("0") == ["host-1", "host-2", None]
    assert world.placed("0-0") not in ("host-1", "host-2", world.placed("0"))


def test_a_start_that_fails_on_the_standbys_host_is_tried_elsewhere() -> None:
    """After a pause; the standby has found another place meanwhile."""
    world = failing_over()
    world.calm("host-2")
    world.trouble("host-2", Trouble.NO_START)
    world.until_all_run()
    assert world.placed("0") not in (None, "host-2")
    assert world.placed("0-0") not in (None, world.placed("0"))


def test_an_active_that_dies_again_before_its_check_in_begins_anew() -> None:
    """The failover is over with its process: the ladder is walked from the top."""
    world = failing_over()
    world.calm("host-2")
    world.until_phase("0", Phase.STARTING)
    world.until(lambda: world.where("0") == "host-2")
    world.crash("0")
    world.until(lambda: world.phases()["0"] is not Phase.STARTING)
    assert world.group().failover is None
    world.until_all_run()
    assert world.placed("0") is not None


def test_the_own_host_coming_free_does_not_stop_a_failover_that_began() -> None:
    """The standby is on its way out: its place is certain, the other is a hope."""
    world = failing_over()
    world.make_room("host-1")
    world.calm("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"


def test_a_new_coordinator_goes_on_with_a_failover() -> None:
    """Same standby, same incarnation, same request: said again, not decided again."""
    world = failing_over()
    stop, request = world.sent(cmd.StopContainer)[-1], world.sent(cmd.RequestResource)[-1]
    world.restart_coordinator()
    assert world.sent(cmd.StopContainer)[-1] == stop
    assert world.sent(cmd.RequestResource)[-1].request_id == request.request_id
    for host in ("host-1", "host-2", "host-3", "host-4"):
        world.register(host)
    world.calm("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"
    assert world.counted()["failovers-to-standby"] == 1


def test_requests_of_the_group_wait_until_the_failover_is_over() -> None:
    """And are told so."""
    world = failing_over()
    world.submit(ask("0-0", "host-3"))
    assert world.told("u1") == [("ACCEPTED", "Request is accepted; waits until 0 has failed over")]
    world.calm("host-2")
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"
    assert world.placed("0-0") == "host-3"


@pytest.mark.parametrize("order", [("host-1", "host-2"), ("host-2", "host-1")])
def test_when_both_hosts_are_lost_active_and_standby_start_cold_elsewhere(
    order: tuple[str, str],
) -> None:
    """Each after its own lease; neither where a ghost may be."""
    world = running(limits=QUICK)
    for host in order:
        world.lose(host)
    world.until_all_run()
    assert {world.placed("0"), world.placed("0-0")} == {"host-3", "host-4"}
    assert world.how_replaced("0") == world.how_replaced("0-0") == Ended.LEASE
    assert world.counted()["failovers-to-any-host"] == 1


def test_a_standby_that_finds_no_room_does_not_end_its_actives_failover() -> None:
    """It gave its place up; the active still waits for its own past to be over."""
    world = running(limits=QUICK)
    world.fill("host-3")
    world.fill("host-4")
    world.lose("host-1")
    world.until(lambda: world.counted()["expired-any-host-requests"] == 1)
    assert world.group().failover is not None
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"
    assert world.asked_for("0") == ["host-2"]


def test_a_move_of_the_other_standby_that_fails_does_not_end_the_failover() -> None:
    """0-1 was starting on host-4 as 0's host was lost, and host-4 is lost after it."""
    world = running(PLACES, groups=REPLICAS, limits=QUICK)
    world.trouble("host-4", Trouble.NO_CHECK_IN)
    world.submit(ask("0-1", "host-4"))
    world.until_phase("0-1", Phase.STARTING)
    world.trouble("host-2", Trouble.SLOW_STOP)
    world.lose("host-1")
    failover = world.group().failover
    assert failover is not None
    assert (failover.active_id, failover.standby_id) == ("0", "0-0")
    world.lose("host-4")
    assert world.group().failover == failover
    world.calm("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"


def test_a_request_that_arrives_as_a_failover_is_due_waits_for_the_failover() -> None:
    """Who was due goes first: the move of its standby that was under way is over by then."""
    world = flapping_active()
    world.fill("host-3")
    world.submit(ask("0-0", "host-3", expiry_ms=10 * LONGEST_PAUSE_MS))
    world.lose("host-1")
    due_ms = world.processor("0").not_before_ms
    state = step(world.state, ev.CoordinatorRestarted(due_ms)).state
    assert state.groups["0"].action is not None
    told = step(state, ev.RequestArrived(due_ms, ask("0", "host-4", uuid="u2")))
    assert told.state.groups["0"].failover is not None
    (said,) = (c for c in told.commands if isinstance(c, cmd.WriteResponse) and c.uuid == "u2")
    assert said.message == "Request is accepted; waits until 0 has failed over"
