"""One placement action at a time: reserve, stop, move, and each way in which that fails."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import texts
from samza_dagster.placement.state import Phase
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.steps import handle
from tests.unit.placement.scenes import ask, running

pytestmark = pytest.mark.unit

RESERVING = ("IN_PROGRESS", texts.RESOURCES_REQUESTED)


def test_the_request_record_is_deleted_in_the_step_that_takes_it() -> None:
    """Deletion and first response are one commit."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert world.brokers.topic == {}
    assert world.told("u1") == [RESERVING]


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
