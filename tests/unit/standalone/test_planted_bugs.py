"""Bugs planted into a standalone processor's rules: histories find each."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

import pytest

from samza_dagster.simulation.standalone_world import (
    StandaloneWorld,
    Step,
    Violation,
    production,
)
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone import requests
from tests.unit.standalone.test_processor_histories import TASKS, spread

pytestmark = pytest.mark.unit

_EXPECTED = "{member.processor_id: member.location for member in group.members}"
BUGS = {
    "a barrier ends before all have come": ("own.places.keys() <= participants", "True"),
    "work goes on while its processor joins": (
        "        if ending:\n"
        "            return without_work(state, now_ms, ending)\n"
        "        return replace(state, joined",
        "        return replace(state, joined",
    ),
    "nobody stops without ZooKeeper": ("return now_ms >= _silent_from(state)", "return False"),
    "work stops when the session is over": ("- state.settings.stop_ms", ""),
    "work starts before all have agreed": (
        "if barrier.state is not BarrierState.DONE:",
        "if barrier.state is BarrierState.TIMED_OUT:",
    ),
    "a leader expects nobody": (_EXPECTED, "{}"),
    "a leader expects itself alone": (_EXPECTED, "{state.processor_id: state.location}"),
    "everybody leads": ("if group.members[0].sequence != state.sequence:", "if False:"),
    "a duplicate goes on": (
        "if first is not None and first.sequence != state.sequence:",
        "if False:",
    ),
    "who came back elsewhere is taken for who was there": ("not moved and ", ""),
    "nobody waits for Samza's own that may work on": (
        "state.samza_left_ms + state.settings.session_ms",
        "0",
    ),
    "who has registered knows that all who are gone have stopped": (
        "has_left = group.model is not None",
        "has_left = False",
    ),
    "a change of members is not seen": (
        "if state.counted != group.members:",
        "if not state.counted:",
    ),
    "a restart succeeds that the processor hasn't said": (
        "running.restart == response.uuid",
        "True",
    ),
    "a task is there as soon as all have agreed": (
        "running.version == group.version and not is_restarting",
        "True",
    ),
    "what has failed stays pinned": (
        "if pin is not None and pin.uuid == response.uuid:",
        "if False:",
    ),
    "a dead leader's request is taken up again": (
        "if pin is not None and pin.uuid == uuid:",
        "if False:",
    ),
    "a restart is dropped by the end of the one before": (
        "    return tuple(commands)\n\n\ndef awaits_version",
        "    return (*commands[1:], *commands[:1])\n\n\ndef awaits_version",
    ),
}


def with_bug(bug: str) -> ModuleType:
    """The processor's rules with a bug in them or in those for requests, on the very same values."""
    right, wrong = BUGS[bug]
    sources = {module: inspect.getsource(module) for module in (rules, requests)}
    (wrong_one,) = (module for module, source in sources.items() if right in source)
    assert sources[wrong_one].count(right) == 1, f"more than once in the rules: {right}"
    made = _made(wrong_one, sources[wrong_one].replace(right, wrong))
    if wrong_one is rules:
        return made
    around = _made(rules, sources[rules])
    around.requests = made
    return around


def _made(module: ModuleType, source: str) -> ModuleType:
    made = ModuleType(f"{module.__name__}_with_a_bug")
    sys.modules[made.__name__] = made
    exec(compile(source, made.__name__, "exec"), made.__dict__)
    for name, value in vars(module).items():
        if isinstance(value, type):
            setattr(made, name, value)
    return made


FIRST = {
    "work stops when the session is over": 12,
    "who came back elsewhere is taken for who was there": 60,
    "who has registered knows that all who are gone have stopped": 28,
    "a change of members is not seen": 66,
    "a task is there as soon as all have agreed": 4,
    "a dead leader's request is taken up again": 31,
}
"""The history to begin with, by the bug: those before it are long, and show none of it."""


@pytest.mark.parametrize("bug", BUGS)
def test_histories_find_a_planted_bug(bug: str) -> None:
    """Within two hundred of each of two groupers."""
    step = with_bug(bug).step
    with pytest.raises(Violation):
        _run_histories(step, FIRST.get(bug, 0))


def _run_histories(step: Step, first: int) -> None:
    for seed in range(first, first + 200):
        StandaloneWorld(seed, spread, TASKS, step, follows_pins=False).run(1_000)
        StandaloneWorld(seed, *production(), step, beside_samza=bool(seed % 2)).run(1_000)


def test_histories_find_writes_that_no_node_guards() -> None:
    """A processor that was paused in the middle of what it writes, beyond its session: another leads by then."""
    with pytest.raises(Violation):
        _run_unguarded()


def _run_unguarded() -> None:
    for seed in range(6, 200):
        beside_samza = bool(seed % 2)
        world = StandaloneWorld(seed, *production(), beside_samza=beside_samza, is_fenced=False)
        world.run(1_000)
