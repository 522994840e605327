"""A seed is a history: the same each time, replayed exactly, shortened to its cause."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import JobState
from tests.simulation import campaign
from tests.simulation.coverage import COLUMNS, ROWS, column_of, missing
from tests.simulation.driver import simulate
from tests.simulation.faults import HANDLERS
from tests.simulation.moves import Move
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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "setup": {}}'])
def test_a_malformed_script_is_refused(text: str) -> None:
    """With what was seen."""
    with pytest.raises(MalformedRecord):
        Script.parse(text)


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


def test_a_script_is_played_leniently() -> None:
    """Moves that are impossible without others are skipped."""
    history = simulate(11, 60)
    every_other = history.script.moves[::2]
    played = play(history.script.setup, (*every_other, Move("obey", ("host-99",)), Move("odd")))
    assert len(played.applied) <= len(every_other)


def test_every_fault_has_its_column() -> None:
    """But those that end one."""
    ends = {"join", "thaw", "calm", "agent-up", "mend"}
    for kind in HANDLERS.keys() - ends:
        move = Move(kind, ("host-1", "stops-fail") if kind == "trouble" else ("host-1", 1))
        assert column_of(move) in COLUMNS, kind


def test_a_campaign_adds_up_whatever_the_workers() -> None:
    """The seeds are the same ones, so are the sums."""
    alone = campaign.run(1, 1_000, steps=40, clock=lambda: 0.0, most_broken=1_000)
    assert alone.events >= 1_000
    again = campaign.run(1, 1_000, steps=40, clock=lambda: 0.0, most_broken=1_000)
    assert (alone.events, alone.faults, alone.coverage) == (
        again.events,
        again.faults,
        again.coverage,
    )
    assert alone.faults * 50 >= alone.changes
    document = alone.to_json(("one-owner",), 1)
    assert document["seeds"] == [1, alone.histories]
    assert json.dumps(document)


def test_what_is_missing_in_the_table_is_named() -> None:
    """Each pair of what was under way and what went wrong."""
    counts = Counter({(row, column): 2 for row in ROWS for column in COLUMNS})
    counts["failover", "crash"] = 1
    assert missing(counts, 2) == [("failover", "crash")]
