"""What goes wrong in the middle of a failover, and what becomes of the active."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit


def failing_over(*, slots: int = 4) -> Scene:
    """The standby was told to give way, and nothing has come of it yet."""
    world = running(limits=QUICK, slots=slots)
    world.trouble("host-2", Trouble.SLOW_STOP)
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
