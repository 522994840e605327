"""Bugs planted into a standalone processor's rules: histories find each."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType

import pytest
import test_processor
import test_zookeeper_group

from samza_dagster.standalone import (
    division,
    job_plan,
    requests,
    runner,
    work,
    zookeeper_group,
)
from samza_dagster.standalone import processor as rules
from tests.simulation.standalone_world import GroupViolation, world_of

pytestmark = pytest.mark.planted

_MODULES = (rules, requests, work, division, job_plan, runner, zookeeper_group)
_EXPECTED = "served=group.members, round=published"
BUGS: dict[str, tuple[str, ...]] = {
    "a leader decides by where tasks ran when the members or the version changed": (
        "                if is_whole:\n                    view = replace(view, locality=self.locality(), is_whole=True)\n",
        "                key = f'{members} {newest}'\n"
        "                if key not in self.__dict__:\n"
        "                    self.__dict__[key] = self.locality()\n"
        "                view = replace(view, locality=self.__dict__[key], is_whole=True)\n",
    ),
    "inputs that have grown are nobody's": (
        "    return inputs_of(model) != inputs_of(group.model) or uneven",
        "    return uneven",
    ),
    "a job with stores takes what its inputs have got": (
        "            if self.is_stateful or counts[topic] % had[topic]:",
        "            if counts[topic] % had[topic]:",
    ),
    "nobody says which inputs nobody reads": (
        "        return self.trouble or self.refused",
        "        return self.trouble",
    ),
    "whose session is over takes its node for deleted": (
        "        asked_ms, group = self._now_ms(), self._read()\n        self._take_facts()",
        "        self._take_facts()\n        asked_ms, group = self._now_ms(), self._read()",
    ),
    "a registration whose answer was lost is made once more": (
        "                if (found, stat.ephemeralOwner) == (data, session):",
        "                if False:",
    ),
    "a barrier ends before all have come": ("places.keys() <= joined", "True"),
    "who registers anew starts by what it had joined before": (
        "sequence=None, joined=0, running=None",
        "sequence=None, running=None",
    ),
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
        "        newest = said = read(paths.version, lambda: layout.version_of(data))",
        "        newest = said = layout.version_of(data)",
    ),
    "whose node was deleted goes on": (
        "        return state, (GiveUp(why),)\n    first =",
        "        return state, ()\n    first =",
    ),
    "a leader goes back to what is older than what it has joined": (
        " or group.version < state.joined:",
        ":",
    ),
    "who has nothing to do looks again at once": (
        "        if ordered:\n            self._wake()",
        "        if not ordered:\n            self._wake()",
    ),
    "a restart is dropped by the end of the one before": (
        "    return tuple(commands)\n\n\ndef awaits_version",
        "    return (*commands[1:], *commands[:1])\n\n\ndef awaits_version",
    ),
}

BUGS_FOR_TESTS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "nobody waits for Samza's own that may work on": (
        test_processor.test_a_leader_waits_for_a_sessions_time_after_one_of_samzas_own_has_left,
        ("state.samza_left_ms + state.settings.session_ms", "0"),
    ),
    "who has registered knows that all who are gone have stopped": (
        test_processor.test_who_registers_takes_those_that_are_gone_for_samzas_own,
        ("has_left = group.model is not None", "has_left = False"),
    ),
    "who came back elsewhere is taken for who was there": (
        test_processor.test_a_version_is_not_agreed_on_when_somebody_has_come_back_elsewhere,
        ("not moved and ", ""),
    ),
    "a group is read without all that was written before": (
        test_zookeeper_group.test_a_reading_has_all_that_was_written_before_it,
        ("            zookeeper.sync(paths.root)\n", ""),
    ),
    "whom the brokers shut out is read as it was": (
        test_zookeeper_group.test_a_reading_has_all_that_was_written_before_it,
        ("            self._zookeeper.sync(self._paths.processors)\n", ""),
    ),
}
"""What histories show less than once in 100,000 events, by the test of what is promised."""


def plant(bug: tuple[str, ...], into: pytest.MonkeyPatch) -> None:
    """Puts functions with the bug in the place of those that processors use; values stay the very same."""
    sources = {module: inspect.getsource(module) for module in _MODULES}
    wrongs = dict(sources)
    for right, wrong in zip(bug[::2], bug[1::2], strict=True):
        (module,) = (module for module, source in sources.items() if right in source)
        assert sources[module].count(right) == 1, f"more than once in the rules: {right}"
        wrongs[module] = wrongs[module].replace(right, wrong)
    for module in (each for each in _MODULES if wrongs[each] != sources[each]):
        made = ModuleType(f"{module.__name__}_with_a_bug")
        into.setitem(sys.modules, made.__name__, made)
        exec(compile(wrongs[module], made.__name__, "exec"), made.__dict__)
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


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """What processors log of a ZooKeeper that fails all the time takes longer than what they do."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("bug", BUGS)
def test_histories_find_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a hundred, of 100,000 events."""
    plant(BUGS[bug], monkeypatch)
    with pytest.raises(GroupViolation):
        _run_histories()


@pytest.mark.parametrize("bug", BUGS_FOR_TESTS)
def test_the_test_of_a_promise_finds_a_planted_bug(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is named beside it."""
    test, planted = BUGS_FOR_TESTS[bug]
    test()
    plant(planted, monkeypatch)
    with pytest.raises(AssertionError):
        test()


def _run_histories() -> None:
    for seed in range(100):
        world_of(seed).run(1_000)
