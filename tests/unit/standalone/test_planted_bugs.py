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
from tests.unit.standalone.test_processor_histories import TASKS, spread

pytestmark = pytest.mark.unit

_EXPECTED = "{member.processor_id: member.location for member in group.members}"
BUGS = {
    "a barrier ends before all have come": ("own.places.keys() <= participants", "True"),
    "work goes on while its processor joins": (
        "        if is_changed and state.work is not None:\n"
        "            return without_work(state)\n"
        "        return replace(state, joined",
        "        return replace(state, joined",
    ),
    "nobody stops without ZooKeeper": ("return now_ms >= _silent_from(state)", "return False"),
    "work stops when the session is over": ("- state.settings.stop_ms", ""),
    "work starts before all have agreed": (
        "barrier.state is BarrierState.DONE and has_joined",
        "has_joined",
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
}


def with_bug(bug: str) -> ModuleType:
    """The rules with a bug, which work on the very same values."""
    right, wrong = BUGS[bug]
    source = inspect.getsource(rules)
    assert source.count(right) == 1, f"{source.count(right)} times in the rules: {right}"
    made = ModuleType("rules_with_a_bug")
    sys.modules[made.__name__] = made
    exec(compile(source.replace(right, wrong), made.__name__, "exec"), made.__dict__)
    for name, value in vars(rules).items():
        if isinstance(value, type):
            setattr(made, name, value)
    return made


@pytest.mark.parametrize("bug", BUGS)
def test_histories_find_a_planted_bug(bug: str) -> None:
    """Within two hundred of each of two groupers."""
    step = with_bug(bug).step
    with pytest.raises(Violation):
        _run_histories(step)


def _run_histories(step: Step) -> None:
    for seed in range(200):
        StandaloneWorld(seed, spread, TASKS, step).run(400)
        StandaloneWorld(seed, *production(), step, beside_samza=True).run(400)
