"""A seed is a history: the same each time, replayed exactly, shortened to its cause."""

from __future__ import annotations

import json

import pytest

from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import JobState
from tests.simulation.driver import simulate
from tests.simulation.script import Script, play
from tests.simulation.shrinking import shrink
from tests.simulation.steps import REDUCER_RAISED

pytestmark = pytest.mark.simulator


def hates_failed_stops(state: JobState, event: ev.Event) -> Step:
    """A reducer that breaks when a process outlives its stop."""
    if isinstance(event, ev.StopFailed):
        raise ValueError("it should be dead")
    return step(state, event)


def test_the_same_seed_gives_the_same_history() -> None:
    """Moves, events, time and the state in the end."""
    one, other = simulate(11, 120), simulate(11, 120)
    assert one.script == other.script
    assert one.digest == other.digest
    assert one.events >= 120 or one.violation is not None
    assert simulate(12, 120).digest != one.digest


def test_a_script_that_is_written_down_plays_the_same() -> None:
    """Every choice is in it."""
    history = simulate(11, 120)
    script = Script.parse(json.dumps(history.script.to_json()))
    assert script == history.script
    played = play(script.setup, script.moves)
    assert (played.violation is None) == (history.violation is None)
    assert played.world.steps == history.events


def broken_history() -> tuple[int, Script]:
    for seed in range(33, 100):
        history = simulate(seed, 250, reducer=hates_failed_stops)
        if history.violation is not None and history.violation.invariant == REDUCER_RAISED:
            return seed, history.script
    raise AssertionError("no process outlived its stop")


def test_a_broken_reducer_is_found_and_its_history_shortened() -> None:
    """A handful of moves is left of hundreds, and they still break it."""
    _, script = broken_history()
    short = shrink(script, REDUCER_RAISED, reducer=hates_failed_stops)
    assert len(short.moves) <= 40 < len(script.moves)
    told: list[str] = []
    played = play(short.setup, short.moves, reducer=hates_failed_stops, lines=told)
    assert played.violation is not None
    assert played.violation.invariant == REDUCER_RAISED
    assert "it should be dead" in told[-1]
    assert any("stops-fail" in line for line in told)
