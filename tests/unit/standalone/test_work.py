"""The work of a processor: what runs, and what goes on over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import container

from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.standalone.division import Containers, divided, ids_of, merged
from samza_dagster.standalone.work import NO_WORK, Orders, ProcessorWork

pytestmark = pytest.mark.unit

TASKS = ("1", "2", "3", "standby1", "standby2")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.sampled_from(TASKS)), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 3),
    st.data(),
)
def test_what_runs_was_told_to_start_and_is_at_work_once_that_very_process_has_said_so(
    versions: list[tuple[set[str], bool]], most: int, data: st.DataObject
) -> None:
    """Also where its id was another's before, which is free again: a request that waits for it ends no sooner."""
    work, live, said, now_ms = NO_WORK, set[str](), set[str](), 0
    for version, (tasks, is_restarted) in enumerate(versions, 1):
        work = work.without() if is_restarted else work
        work = work.by(version, "a", container("a", *sorted(tasks)), most).agreed("a", most, now_ms)
        for _ in range(3):
            now_ms += 50_000
            work, orders = work.ordered(now_ms, 8_000)
            assert not ids_of(orders.starts) & live, "none is started twice"
            live |= ids_of(orders.starts)
            ended = data.draw(st.sets(st.sampled_from(sorted(work.ending)))) if work.ending else ()
            work = work.ended(frozenset(ended))
            live, said = live.difference(ended), said.difference(ended)
            for each in data.draw(st.sets(st.sampled_from(sorted(live)))) if live else ():
                work = work.now_at_work(each, now_ms)
                said |= {each} - work.ending
            assert ids_of(work.running) == live
            assert work.at_work == said
            assert live - said - work.ending <= work.starting.keys() <= live - said


# What one version or restart does to a processor's containers, however long each part of it takes.

TASK_SETS = st.sets(st.sampled_from(("1", "2", "3", "4", "standby1", "standby2")))
RUNS_ON_MS, WARMED_MS, RESTORED_MS, STARTED_MS = 8_000, 4_000, 3_000, 30_000
Times = dict[str, int]


@dataclass
class Change:
    """A processor's containers from `now_ms` on: when each was expected, ready, started, at work, told to end, and has ended."""

    delay: Callable[[], int]
    work: ProcessorWork = NO_WORK
    now_ms: int = 0
    expected: Times = field(default_factory=Times)
    there: Times = field(default_factory=Times)
    started: Times = field(default_factory=Times)
    at_work: Times = field(default_factory=Times)
    told: Times = field(default_factory=Times)
    ended: Times = field(default_factory=Times)
    tasks: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def settle(self, version: int, given_: ContainerModel) -> None:
        """The version is agreed on once nothing is given up; it ends when nothing happens by itself any more."""
        self.work = self.work.by(version, "a", given_, 3)
        coming: list[tuple[int, str, str]] = []
        for _ in range(100):
            if not self.work.gives_up(given_):
                self.work = self.work.agreed("a", 3, self.now_ms)
            self.work, orders = self.work.ordered(self.now_ms, RUNS_ON_MS)
            known = (*self.work.running, *self.work.expected)
            self.tasks |= {each.processor_id: set(each.tasks) for each in known}
            for began, ends, ids in (
                ("expected", "there", ids_of(self.work.expected)),
                ("started", "at_work", ids_of(orders.starts)),
                ("told", "ended", orders.ends),
            ):
                for own in sorted(ids - getattr(self, began).keys()):
                    getattr(self, began)[own] = self.now_ms
                    coming.append((self.now_ms + self.delay(), ends, own))
            wake_ms = self.work.wake_ms
            times = [each[0] for each in coming] + ([] if wake_ms is None else [wake_ms])
            if not times:
                return
            next_ms = max(self.now_ms, min(times))
            if next_ms > self.now_ms:
                quiet = self.work.ordered(next_ms - 1, RUNS_ON_MS)[1]
                assert quiet == Orders(), "it has to be asked sooner than it says"
            self.now_ms = next_ms
            for each in [each for each in coming if each[0] <= next_ms]:
                coming.remove(each)
                self._happens(*each[1:])
        raise AssertionError(f"it never comes to rest: {self}")

    def _happens(self, what: str, own: str) -> None:
        getattr(self, what)[own] = self.now_ms
        if what == "there":
            self.work = self.work.now_there(own, self.now_ms)
        elif what == "at_work":
            self.work = self.work.now_at_work(own, self.now_ms)
        else:
            self.work = self.work.ended(frozenset({own}))

    def times(self, of: Times, tasks: Iterable[str]) -> list[int]:
        """When that befell the containers that have one of these tasks."""
        return [at_ms for own, at_ms in of.items() if self.tasks[own] & set(tasks)]


@settings(deadline=None)
@given(st.lists(st.tuples(TASK_SETS, st.booleans()), min_size=1, max_size=3), st.data())
def test_tasks_that_stay_go_on_until_what_is_to_go_on_with_them_is_warm(
    versions: list[tuple[set[str], bool]], data: st.DataObject
) -> None:
    """But for a restart. How long they are silent is known, standby tasks start after active ones, and all comes to rest."""
    delays = st.sampled_from((0, 1, 700, 5_000, 9_000, 40_000))
    change, before = Change(lambda: data.draw(delays)), set[str]()
    for version, (after, is_restart) in enumerate(versions, 1):
        work = change.work.without() if is_restart else change.work
        change = Change(change.delay, work, change.now_ms)
        begins_ms, silent_ms = change.now_ms, work.silent_ms
        change.settle(version, container("a", *sorted(after)))
        assert change.work.has_checked_in
        assert {name for each in change.work.running for name in each.tasks} == after
        standbys = {name for name in after if name.startswith("standby")}
        stay = before & after - standbys
        told, back = change.times(change.told, stay), change.times(change.at_work, stay)
        if told:
            warm_ms = max(change.times(change.there, after - standbys), default=0) + WARMED_MS
            ends_ms = begins_ms if is_restart else min(begins_ms + RUNS_ON_MS, warm_ms)
            assert set(told) == {ends_ms}
            assert change.work.silent_ms == max(back) - ends_ms
        else:
            assert change.work.silent_ms == (0 if before and not is_restart else silent_ms)
        actives = change.times(change.started, after - standbys)
        ready = change.times(change.at_work, after - standbys)
        for own, at_ms in change.started.items():
            others = change.times(change.ended, change.tasks[own])
            if change.tasks[own] & standbys and actives:
                late_ms = min(max(actives) + STARTED_MS, max(ready) + RESTORED_MS)
                assert at_ms >= late_ms
            assert at_ms >= max(others, default=0)
        before = after


# In which containers a processor runs its tasks, over versions that nobody chose.

WHO = "orders-eu_1"


def task(name: str, partition: int = 0) -> TaskModel:
    """Standby, when its name says so."""
    mode = TaskMode.STANDBY if name.startswith("Standby") else TaskMode.ACTIVE
    return TaskModel(
        task_name=name,
        system_stream_partitions=(),
        changelog_partition=partition,
        task_mode=mode,
    )


NAMES = [f"Partition {n}" for n in range(6)] + [f"Standby-Partition {n}-0" for n in range(6)]
versions = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1)).map(
    lambda chosen: {name: task(name, partition) for name, partition in chosen.items()}
)


def ids(containers: Containers) -> list[str]:
    return [each.processor_id for each in containers]


def actives(containers: Containers) -> Containers:
    return tuple(each for each in containers if each.mode is TaskMode.ACTIVE)


@settings(max_examples=200, deadline=None)
@given(st.lists(versions, min_size=1, max_size=6), st.integers(1, 3), st.data())
def test_each_task_is_in_one_container_and_one_whose_tasks_all_stay_is_untouched(
    given_: list[dict[str, TaskModel]], most: int, data: st.DataObject
) -> None:
    """Version after version, with and without a while between them in which containers become fewer."""
    before: Containers = ()
    for tasks in given_:
        taken = data.draw(st.sets(st.sampled_from(["orders_.eu__1", "orders_.eu__1_1", "x"])))
        after = divided(WHO, before, tasks, taken)
        placed = [(name, each) for container in after for name, each in container.tasks.items()]
        assert dict(placed) == tasks
        assert len(placed) == len(tasks), "each in one container"
        for each in after:
            assert len({found.task_mode for found in each.tasks.values()}) == 1
            assert ("-" in each.processor_id) == (each.mode is TaskMode.STANDBY), "as Samza tells"
        new = [each for each in after if each not in before]
        assert not {*ids(tuple(new))} & {*taken, *ids(before)}
        assert max(Counter(ids(after)).values(), default=0) < 2
        for each in actives(before):
            stays = each.tasks.items() <= tasks.items()
            assert (each in after) == stays
        for each in actives(tuple(new)):
            homes = [b for b in actives(before) if each.tasks.items() & b.tasks.items()]
            assert len(homes) <= 1
            assert all(each.tasks.items() <= home.tasks.items() for home in homes), "none is added"
        assert len(actives(after)) <= len(actives(before)) + 1
        assert sum(each.mode is TaskMode.STANDBY for each in after) <= 1
        before = after
        if data.draw(st.booleans()):
            before = merged(WHO, after, most, taken)
            assert len(actives(before)) <= most
            unchanged = [each for each in actives(after) if each in before]
            assert len(unchanged) >= min(len(actives(after)), most - 1)
            assert {n for c in before for n in c.tasks} == tasks.keys()


def test_those_with_the_fewest_tasks_become_one_container() -> None:
    """A bound that holds ends none."""
    containers = tuple(
        ContainerModel(processor_id=own, tasks={name: task(name) for name in names})
        for own, names in (("a", ("1", "2")), ("a_1", ("3",)), ("a_2", ("4",)))
    )
    assert merged("a", containers, 3, ()) == containers
    first, second = merged("a", containers, 2, {"a_3"})
    assert first == containers[0]
    assert (second.processor_id, set(second.tasks)) == ("a_4", {"3", "4"})
