"""What one version or restart does to a processor's containers, however long each part of it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import container

from samza_dagster.model import ContainerModel
from samza_dagster.standalone.division import ids_of
from samza_dagster.standalone.work import NO_WORK, Orders, ProcessorWork

pytestmark = pytest.mark.unit

TASKS = st.sets(st.sampled_from(("1", "2", "3", "4", "standby1", "standby2")))
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
@given(st.lists(st.tuples(TASKS, st.booleans()), min_size=1, max_size=3), st.data())
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
