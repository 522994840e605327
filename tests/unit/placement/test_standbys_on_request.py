"""One more standby for an active, and one less (SEP-22's controlStandBy)."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import containers, texts
from samza_dagster.placement.events import (
    ContainerCheckedIn,
    CoordinatorRestarted,
    LagObserved,
    StopFailed,
)
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import AskKind, Lag, Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import GROUPS, QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit

START, STOP = AskKind.START_STANDBY, AskKind.STOP_STANDBY


def starting(destination: str = "host-3", world: Scene | None = None) -> Scene:
    world = world or running(limits=QUICK)
    world.submit(own(START, "0", destination))
    return world


def stopping(standby_id: str = "0-0", world: Scene | None = None) -> Scene:
    world = world or running(limits=QUICK)
    world.submit(own(STOP, standby_id))
    return world


# -- start ---------------------------------------------------------------------------------


def test_a_standby_starts_on_any_legal_host() -> None:
    """Neither its active's nor another replica's."""
    world = starting("ANY_HOST")
    [request] = world.sent(cmd.RequestResource)
    assert (request.processor_id, request.host) == ("0-1", None)
    assert request.excluded_hosts == ("host-1", "host-2")
    world.until_all_run()
    assert world.placed("0-1") in ("host-3", "host-4")


def test_there_is_a_most_that_an_active_may_have() -> None:
    """`max_standbys`, with what would help."""
    world = running(limits=Limits(max_standbys=1))
    starting("host-3", world)
    assert world.outcome() == (
        "BAD_REQUEST",
        texts.bad_request("most-standbys: 0 has 1 standbys, the most that it may; stop one first"),
    )


def test_a_start_whose_host_is_lost_gives_the_standby_up() -> None:
    """Its ghost is remembered until the host says what became of it."""
    world = starting("host-3")
    world.until_phase("0-1", Phase.STARTING)
    world.lose("host-3")
    assert world.outcome() == ("FAILED", texts.standby_start_failed("0-1", "host-3"))
    assert "0-1" not in world.phases()
    assert [ghost.processor_id for ghost in world.group().ghosts] == ["0-1"]


def test_a_replicas_name_is_used_again_only_when_nothing_is_left_of_it() -> None:
    """Its ghost may still answer to the name."""
    world = starting("host-3")
    world.until_phase("0-1", Phase.STARTING)
    world.lose("host-3")
    world.submit(own(START, "0", "host-4", uuid="u2"))
    world.until(lambda: world.outcome("u2")[0] == "SUCCEEDED")
    assert world.outcome("u2") == ("SUCCEEDED", texts.standby_started("0-2", "host-4"))
    world.settle()
    world.submit(own(START, "0", "host-3", uuid="u3"))
    world.settle()
    assert world.outcome("u3") == ("SUCCEEDED", texts.standby_started("0-1", "host-3"))


# -- stop ----------------------------------------------------------------------------------


def never_checks_in(*, stubborn: bool = True) -> Scene:
    """0-0 was started again and hangs before its check-in; no stop can end it."""
    world = running(limits=QUICK)
    world.trouble("host-2", Trouble.NO_CHECK_IN)
    world.crash("0-0")
    world.until_phase("0-0", Phase.STARTING)
    if stubborn:
        world.trouble("host-2", Trouble.STUBBORN)
    return world


def test_a_standby_that_never_checked_in_and_survives_its_stop_is_starting_still() -> None:
    """FAILED; it has what is left of its time to start, and takes nobody's place meanwhile."""
    world = never_checks_in()
    deadline_ms = world.processor("0-0").deadline_ms
    world.wait(1_000)
    world.log.clear()
    stopping("0-0", world)
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.stop_failed("host-2"))
    standby = world.processor("0-0")
    assert (standby.phase, standby.deadline_ms) == (Phase.STARTING, deadline_ms)
    assert standby.wanted
    assert world.sent(cmd.WriteLocality) == []
    world.submit(ask("0", "STANDBY", uuid="u2"))
    assert world.outcome("u2")[0] == "BAD_REQUEST"


def test_a_start_that_survived_a_stop_is_overdue_when_it_would_have_been() -> None:
    """It is stopped for good then, and only its death leads on."""
    world = never_checks_in()
    stopping("0-0", world)
    world.until_stage(None)
    world.wait(world.state.limits.start_timeout_ms)
    assert world.processor("0-0").phase is Phase.STOPPING
    world.calm("host-2")
    world.wait(containers.STOP_RETRY_MS)
    world.settle()
    assert world.phases()["0-0"] is Phase.RUNNING


def test_a_take_over_gives_a_start_that_is_being_stopped_its_time_anew() -> None:
    """As it does to every start: its deadline was of another clock."""
    world = never_checks_in()
    stopping("0-0", world)
    after = step(world.state, CoordinatorRestarted(world.now_ms + 20_000)).state
    stop_failed = StopFailed(after.now_ms, world.execution("0-0"), "host-2", "it lives on")
    standby = step(after, stop_failed).state.groups["0"].processors["0-0"]
    due_ms = after.now_ms + after.limits.start_timeout_ms
    assert (standby.phase, standby.deadline_ms) == (Phase.STARTING, due_ms)


def test_a_standby_that_checks_in_while_it_is_stopped_runs_if_it_survives() -> None:
    """What was said is heard, though it was on its way to an end."""
    world = never_checks_in(stubborn=False)
    stopping("0-0", world)
    execution_id = world.execution("0-0")
    after = step(world.state, ContainerCheckedIn(world.now_ms, execution_id, "host-2")).state
    assert after.groups["0"].processors["0-0"].phase is Phase.STOPPING
    result = step(after, StopFailed(world.now_ms, execution_id, "host-2", "it lives on"))
    standby = result.state.groups["0"].processors["0-0"]
    assert (standby.phase, standby.deadline_ms) == (Phase.RUNNING, None)
    assert (standby.attempts, standby.last_seen_host) == (0, "host-2")
    assert cmd.WriteLocality("0-0", "host-2") in result.commands


def test_a_standby_that_was_being_stopped_already_goes_on_being_stopped() -> None:
    """Its start was overdue: a request that comes then and fails doesn't make it run."""
    world = never_checks_in()
    world.wait(world.state.limits.start_timeout_ms)
    assert world.processor("0-0").phase is Phase.STOPPING
    stopping("0-0", world)
    execution_id = world.execution("0-0")
    stop_failed = StopFailed(world.now_ms, execution_id, "host-2", "it lives on")
    after = step(world.state, stop_failed).state.groups["0"]
    standby = after.processors["0-0"]
    assert (standby.phase, standby.wanted, after.action) == (Phase.STOPPING, True, None)
    assert standby.deadline_ms is not None


def test_a_standby_of_the_deployment_before_never_runs_again() -> None:
    """A new one stops it for good: a request to stop it, too, changes nothing of that."""
    world = running(limits=QUICK)
    world.trouble("host-2", Trouble.STUBBORN)
    world.deploy(GROUPS, deployment_id="run-2")
    assert world.processor("0-0").phase is Phase.STOPPING
    world.submit(own(STOP, "0-0").evolve(deployment_id="run-2"))
    world.until_stage(None)
    assert world.outcome()[0] == "FAILED"
    assert world.processor("0-0").phase is Phase.STOPPING


def test_of_a_standby_that_was_removed_no_lag_is_kept() -> None:
    """Nor is one of it that was read before and told after."""
    world = stopping(world=measured())
    world.until(lambda: "0-0" not in world.phases())
    assert "0-0" not in world.state.lags
    late = LagObserved(world.now_ms, (Lag("0-0", 5, None, world.now_ms), Lag("9-9", 1, None, 0)))
    assert step(world.state, late).state.lags == world.state.lags


def measured() -> Scene:
    world = running(limits=QUICK)
    world.lag("0-0", 5, 100)
    assert world.state.lags["0-0"].records == 5
    return world
