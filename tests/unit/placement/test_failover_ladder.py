"""An active that dies: its own host, then the standby soonest ready, then any host."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import failover, failures
from samza_dagster.placement.state import AskKind, Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, own, running

pytestmark = pytest.mark.unit

# -- the first rung: its own host ----------------------------------------------------------


def test_a_full_host_isnt_waited_for_when_a_standby_is_ready() -> None:
    """Its refusal ends the first rung: the active is down, and its standby warm."""
    world = running()
    world.evict("0")
    began = world.now_ms
    world.until(lambda: world.group().failover is not None)
    assert world.now_ms == began


def test_a_host_that_doesnt_answer_has_its_time() -> None:
    """`cluster-manager.container.request.timeout.ms` is what the first rung may take."""
    world = running()
    world.evict("0")
    assert world.do(Move("cut", ("host-1", "both")))
    began = world.now_ms
    world.until(lambda: world.group().failover is not None)
    assert world.now_ms == began + world.state.limits.request_timeout_ms


def test_its_own_host_is_asked_once_when_its_standby_is_stopped_by_the_next_request() -> None:
    """Its turn came first, in the same step: then the standby could still have taken over."""
    world = running(limits=Limits(retry_count=0, host_timeout_ms=60_000))
    world.crash("0")
    world.until_phase("0", Phase.WAITING)
    world.until(lambda: not world.moves())
    assert world.do(Move("kill-leader"))
    world.wait(failures.LONGEST_PAUSE_MS)
    assert world.do(Move("take-over"))
    world.log.clear()
    world.submit(own(AskKind.STOP_STANDBY, "0-0"))
    asked, stopped = world.sent(cmd.RequestResource), world.sent(cmd.StopContainer)
    assert [(r.processor_id, r.host, r.urgent) for r in asked] == [("0", "host-1", True)]
    assert [s.processor_id for s in stopped] == ["0-0"]
    world.until_all_run()
    assert world.placed("0") == "host-1"


# -- the second rung: a standby's place ----------------------------------------------------


def test_the_standby_that_gave_way_starts_after_its_active() -> None:
    """Seconds later, by time alone: it competes for nothing while its active is down."""
    world = running()
    world.evict("0")
    world.until(lambda: world.phases()["0"] is Phase.RUNNING)
    assert world.phases()["0-0"] is Phase.WAITING
    began = world.now_ms
    world.until_all_run()
    assert world.now_ms == began + failover.ACTIVE_FIRST_MS


def test_localities_stop_and_request_are_one_step() -> None:
    """The SEP's steps 3 to 5 in one commit: no crash comes between them."""
    world = running()
    world.evict("0")
    world.until(lambda: world.group().failover is not None)
    said = world.commands_with(cmd.DeleteLocality)
    first = said.index("DeleteLocality 0-0")
    assert [s for s in said[first:] if "Count" not in s] == [
        "DeleteLocality 0-0",
        "WriteLocality 0",
        "StopContainer 0-0",
        "RequestResource 0",
    ]
    assert dict(world.locality()) == {"0": "host-2", "1": "host-3", "1-0": "host-4"}


def test_the_active_starts_only_when_the_standby_was_seen_dead() -> None:
    """The resource alone doesn't do: only one can have the store directory."""
    world = running()
    world.trouble("host-2", Trouble.SLOW_STOP)
    world.evict("0")
    world.until_phase("0", Phase.RESERVED)
    world.until(lambda: not world.moves())
    assert world.where("0-0") == "host-2"
    assert world.started() == []
    world.calm("host-2")
    world.until_all_run()
    assert world.started()[0] == ("0", "host-2")


def test_the_active_starts_only_when_the_resource_is_held() -> None:
    """The standby's death alone doesn't do: the room it leaves must be reserved first."""
    world = running(slots=1)
    world.evict("0")
    world.until(lambda: world.where("0-0") is None and world.group().failover is not None)
    assert world.phases()["0"] is Phase.REQUESTING
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"


# -- the last rung: any host ---------------------------------------------------------------


def test_when_there_is_no_room_at_all_the_ladder_begins_again() -> None:
    """After a pause; never ends the job."""
    world = running(groups={"0": ("0",)}, slots=1)
    for host in HOSTS[1:]:
        world.fill(host)
    world.evict("0")
    world.until(lambda: world.asked_for("0").count(None) == 2, limit=3_000)
    assert world.asked_for("0") == ["host-1", None, "host-1", None]
    world.make_room("host-3")
    world.until_all_run()
    assert world.placed("0") == "host-3"
