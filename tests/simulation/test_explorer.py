"""The explorer looks at every interleaving, finds the shortest way to a bug, and says when it is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import JobState
from tests.simulation.explorer import explore
from tests.simulation.small_world import ASKS, Budget, SmallWorld
from tests.simulation.world import World

pytestmark = pytest.mark.simulator

NOTHING = Budget(crashes=0, lost_hosts=0, duplicates=0)
ONE_GROUP = SmallWorld(NOTHING, ASKS[:1], layout=(("0", "0-0"),))


def test_a_world_without_faults_is_closed_and_holds() -> None:
    """One move of one active: every interleaving, to the end."""
    seen = explore(ONE_GROUP)
    assert seen.finding is None
    assert seen.closed
    assert seen.quiescent >= 2
    assert {dict(asks).get("u-1") for _, asks in seen.outcomes} == {None, "SUCCEEDED"}


def test_a_crash_leads_to_no_end_that_is_not_one_without_it() -> None:
    """Invariant 9 for one move: between any two commands, and the end is the same."""
    calm = explore(ONE_GROUP)
    crashed = explore(replace(ONE_GROUP, budget=replace(NOTHING, crashes=1)))
    assert crashed.finding is None
    assert crashed.closed
    assert crashed.states > calm.states
    assert crashed.premises["recovery-equivalent"] > 0
    assert crashed.outcomes.keys() <= calm.outcomes.keys()


def hasty(state: JobState, event: ev.Event) -> Step:
    """A reducer that says SUCCEEDED as soon as it begins."""
    taken = step(state, event)
    return Step(taken.state, tuple(map(in_haste, taken.commands)))


def in_haste(command: cmd.Command) -> cmd.Command:
    if isinstance(command, cmd.WriteResponse) and command.status == "IN_PROGRESS":
        return replace(command, status="SUCCEEDED")
    return command


def test_a_bug_is_found_on_the_shortest_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked, read, and a lie: two moves, whatever else could have come between."""
    begin = SmallWorld.begin

    def begin_with_a_bug(config: SmallWorld) -> World:
        world = begin(config)
        world.reducer = hasty
        return world

    monkeypatch.setattr(SmallWorld, "begin", begin_with_a_bug)
    finding = explore(ONE_GROUP).finding
    assert finding is not None
    assert finding.invariant == "acted-once"
    assert [move.kind for move in finding.path] == ["ask", "read"]
