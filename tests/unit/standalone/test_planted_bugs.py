"""Bugs planted into a standalone processor's rules: histories find each."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

import pytest

from samza_dagster.simulation.standalone_world import GroupViolation, world_of
from samza_dagster.standalone import (
    division,
    job_plan,
    requests,
    runner,
    work,
    zookeeper_group,
)
from samza_dagster.standalone import processor as rules

pytestmark = pytest.mark.planted

_MODULES = (rules, requests, work, division, job_plan, runner, zookeeper_group)
_EXPECTED = "served=group.members, round=published"
BUGS = {
    "a barrier ends before all have come": ("places.keys() <= joined", "True"),
    "work goes on while its processor joins": (
        "    if work.gives_up(given):",
        "    if False:",
    ),
    "nobody stops without ZooKeeper": (" or now_ms >= silent_from(state)", ""),
    "work stops when the session is over": ("- state.settings.stop_ms", ""),
    "work starts before all have agreed": (
        "elif barrier.state is BarrierState.DONE:",
        "elif barrier.state is not BarrierState.TIMED_OUT:",
    ),
    "a leader expects nobody": (_EXPECTED, "served=(), round=published"),
    "a leader expects itself alone": (_EXPECTED, "served=group.members[:1], round=published"),
    "a container that never checks in is waited for": (
        "now_ms >= late.since_ms + state.settings.start_ms",
        "False",
    ),
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
    "who has given up a task joins before its container has ended": (
        "for each in self.running for name, task in each.tasks.items()",
        "for each in self.wanted for name, task in each.tasks.items()",
    ),
    "a task that a version adds starts before all have agreed": (
        "awaited=ids_of(new),",
        "awaited=frozenset(),",
    ),
    "a task starts anew before its container has ended": (
        "and not any(each.tasks.keys() & other.tasks.keys() for other in self.running)",
        "",
    ),
    "a container goes on with a task that another has": (
        "if staying == each.tasks and",
        "if staying and",
    ),
    "added tasks join those that stay in one container": (
        "        if staying == each.tasks and (each.mode is TaskMode.ACTIVE or staying == of_mode):",
        "        if staying == of_mode:",
    ),
    "containers become more and more": ("return replace(work, wanted=wanted)", "return work"),
    "what was given up is chosen again from what hasn't been agreed on": (
        "            and each.processor_id not in self.awaited\n            and not have",
        "            and not have",
    ),
    "who has stopped without ZooKeeper goes on by the version that it knew": (
        "wanted=(), version=0, awaited",
        "wanted=(), awaited",
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
        "return group.runs_newest(member) and not is_restarting",
        "return True",
    ),
    "what has failed stays pinned": (
        "if pin is not None and pin.uuid == response.uuid:",
        "if False:",
    ),
    "a dead leader's request is taken up again": (
        "if pin is not None and pin.uuid == uuid:",
        "if False:",
    ),
    "a leader of a group at rest publishes whatever its grouper makes": (
        "return inputs_of(model) != inputs_of(group.model) or uneven(model) < uneven(group.model)",
        "return places_of(model) != places_of(group.model)",
    ),
    "a request lets other tasks move": (
        "staying = requests.staying(group) if is_same else frozenset[str]()",
        "staying = frozenset()",
    ),
    "a container is expected before its login is there": (
        "                    self._fence.admit(self._group.registration(sequence))",
        "                    pass",
    ),
    "a version that can't be read ends who reads it": (
        "        newest = read(paths.version, lambda: layout.version_of(data))",
        "        newest = layout.version_of(data)",
    ),
    "whose node was deleted goes on": (
        "        return state, (GiveUp(why),)\n    first =",
        "        return state, ()\n    first =",
    ),
    "a leader goes back to what is older than what it has joined": (
        " or group.version < state.joined:",
        ":",
    ),
    "a restart is dropped by the end of the one before": (
        "    return tuple(commands)\n\n\ndef awaits_version",
        "    return (*commands[1:], *commands[:1])\n\n\ndef awaits_version",
    ),
}


def plant(bug: str, into: pytest.MonkeyPatch) -> None:
    """Puts functions with the bug in the place of those that processors use; values stay the very same."""
    right, wrong = BUGS[bug]
    sources = {module: inspect.getsource(module) for module in _MODULES}
    (module,) = (module for module, source in sources.items() if right in source)
    assert sources[module].count(right) == 1, f"more than once in the rules: {right}"
    made = ModuleType(f"{module.__name__}_with_a_bug")
    into.setitem(sys.modules, made.__name__, made)
    exec(compile(sources[module].replace(right, wrong), made.__name__, "exec"), made.__dict__)
    with_bug = dict(_functions(made))
    for name, function in _functions(module):
        into.setattr(function, "__code__", with_bug[name].__code__)


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """By name: the functions of a module, the methods and properties of its classes."""
    for holder in (module, *filter(inspect.isclass, vars(module).values())):
        for value in vars(holder).values():
            function = value.fget if isinstance(value, property) else value
            if not isinstance(function, FunctionType) or function.__module__ != module.__name__:
                continue
            if function.__code__.co_filename != "<string>":  # as a dataclass makes them
                yield function.__qualname__, function


@pytest.mark.parametrize("bug", BUGS)
def test_histories_find_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a hundred, of 100,000 events."""
    plant(bug, monkeypatch)
    with pytest.raises(GroupViolation):
        _run_histories()


def _run_histories() -> None:
    for seed in range(100):
        world_of(seed).run(1_000)


def test_histories_find_writes_that_no_node_guards() -> None:
    """A processor that was paused in the middle of what it writes, beyond its session: another leads by then."""
    with pytest.raises(GroupViolation):
        _run_unguarded()


def _run_unguarded() -> None:
    for seed in range(100):
        world_of(seed, is_guarded=False).run(1_000)
