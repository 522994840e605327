"""A processor's containers: what it means to run, what runs, and what follows of the two. Pure.

Only a processor that gives a task up has to stop before a version is agreed on. Active tasks that
stay go on over it, be it in another container, since no other processor may own them before or
after.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from samza_dagster.model import ContainerModel, TaskMode
from samza_dagster.standalone.division import Containers, divided, ids_of, merged

_WARMED_MS = 4_000
"""So long a container runs on once the process is there that is to go on with its tasks: that asks for its JobModel at
once and warms itself while it waits for that."""
_STARTED_MS, _RESTORED_MS = 30_000, 3_000
"""So long standby tasks wait at most for active ones that start, and once these have checked in: their stores are
restored after that, and their run loop begins."""


class Orders(NamedTuple):
    """Ids of the containers that are to end, and those to start."""

    ends: frozenset[str] = frozenset()
    starts: Containers = ()


class LongestStart(NamedTuple):
    """A container that hasn't checked in since it was told to start at `since_ms`."""

    since_ms: int
    container: str


@dataclass(frozen=True)
class ProcessorWork:
    """The containers of one processor.

    `wanted` are those that it means to run, as it chose them by `version`; of these the `awaited`
    hold what it may run only once that version is agreed on, and the `expected` are to start soon;
    of these the processes are `there` that wait for it. Tasks that stay run on where they are until
    `runs_on_until_ms`. `running` are those that were told to start and haven't ended, of which the
    `ending` were told to end, and `at_work` process their tasks. `starting` is when each was told
    to start that hasn't checked in yet. Standby tasks start at `standbys_ms`: a JVM that starts
    beside those of active tasks slows these down. `silent` are active tasks that stay though their
    container was stopped at `silent_since_ms` or later, and that aren't at work again. `silent_ms`
    is for how long they were so at the newest version or restart; None before any task has stayed.
    """

    wanted: Containers = ()
    version: int = 0
    awaited: frozenset[str] = frozenset()
    expected: Containers = ()
    there: frozenset[str] = frozenset()
    runs_on_until_ms: int | None = None
    running: Containers = ()
    ending: frozenset[str] = frozenset()
    at_work: frozenset[str] = frozenset()
    starting: Mapping[str, int] = field(default_factory=dict[str, int])
    standbys_ms: int = 0
    silent: frozenset[str] = frozenset()
    silent_since_ms: int = 0
    silent_ms: int | None = None

    @property
    def wake_ms(self) -> int | None:
        """Return when `ordered` is due without an event, or None."""
        waits = self.have_actives_started and self.free_to_start(TaskMode.STANDBY)
        due = (self.standbys_ms if waits else None, self.runs_on_until_ms)
        return min((at for at in due if at is not None), default=None)

    @property
    def longest_start(self) -> LongestStart | None:
        """Return the container that has gone longest without its check-in.

        None: all have checked in.
        """
        starting = self.starting.items()
        late = (LongestStart(ms, own) for own, ms in starting if own not in self.ending)
        return min(late, default=None)

    @property
    def have_actives_started(self) -> bool:
        """Return whether all active containers that may run have started."""
        return ids_of(self.expected) <= self.awaited

    @property
    def is_settled(self) -> bool:
        """Return whether it runs what it means to run."""
        return not self.ending and ids_of(self.wanted) == ids_of(self.running)

    @property
    def has_checked_in(self) -> bool:
        """Return whether all that it means to run has started and checked in."""
        return self.is_settled and ids_of(self.wanted) <= self.at_work

    @property
    def is_at_work(self) -> bool:
        """Return whether all active tasks that it may run are processed."""
        return ids_of(_actives(self.wanted)) - self.awaited <= self.at_work

    @property
    def awaits_process(self) -> bool:
        """Return whether a parked process is missing for active tasks that are to start."""
        return not ids_of(_actives(self.wanted)) - ids_of(self.running) <= self.there

    def gives_up(self, given: ContainerModel | None) -> bool:
        """Return whether a container still runs a task that `given` lacks."""
        tasks = {} if given is None else given.tasks
        return any(
            tasks.get(name) != task for each in self.running for name, task in each.tasks.items()
        )

    def by(
        self, version: int, processor_id: str, given: ContainerModel | None, most: int
    ) -> ProcessorWork:
        """Return the work that this version gives its processor, chosen once for a version.

        At most so many containers have active tasks, and one that it gets.
        """
        if self.version == version:
            return self
        own, taken = self._own(), ids_of(self.running)
        tasks = {} if given is None else given.tasks
        wanted = divided(processor_id, own, tasks, taken)
        staying = _active_tasks(own)
        new = tuple(e for e in wanted if e not in own and not e.tasks.keys() <= staying)
        kept = tuple(each for each in wanted if each not in new)
        room = most if _actives(new) else most + 1
        few = merged(processor_id, kept, room, taken | ids_of(new))
        return replace(
            self,
            wanted=(*few, *new),
            version=version,
            awaited=ids_of(new),
            runs_on_until_ms=self.runs_on_until_ms if few == kept else 0,
            silent_ms=0 if own else self.silent_ms,
        )

    def _own(self) -> Containers:
        """Return what runs on, and what replaces ended or ending containers.

        Containers that are only awaited are left out.
        """
        running_on = tuple(
            each for each in self.running if self.wanted and each.processor_id not in self.ending
        )
        have = {name for each in running_on for name in each.tasks}
        begun = (
            each
            for each in self.wanted
            if each not in self.running
            and each.processor_id not in self.awaited
            and not have & each.tasks.keys()
        )
        return (*running_on, *begun)

    def agreed(self, processor_id: str, most: int, now_ms: int) -> ProcessorWork:
        """Return the work after the agreement on its version.

        Once all is at work, merge down to `most`.
        """
        work = self
        if self.awaited:
            restored_ms = now_ms + _RESTORED_MS
            at_ms = restored_ms if self.is_at_work else max(restored_ms, self.standbys_ms)
            work = replace(self, awaited=frozenset(), standbys_ms=at_ms)
        if not (work.is_settled and work.is_at_work):
            return work
        wanted = merged(processor_id, self.wanted, most, ids_of(self.running))
        return replace(work, wanted=wanted)

    def without(self) -> ProcessorWork:
        """Return the work that runs nothing, until a version gives it something."""
        return replace(self, wanted=(), version=0, awaited=frozenset(), runs_on_until_ms=0)

    def ended(self, ids: frozenset[str]) -> ProcessorWork:
        """Return the work after these have ended; after an unplanned end all starts anew."""
        work = self if ids <= self.ending or not ids & ids_of(self.running) else self.without()
        return replace(
            work,
            running=tuple(each for each in work.running if each.processor_id not in ids),
            ending=work.ending - ids,
            at_work=work.at_work - ids,
            starting=_without(work.starting, ids),
        )

    def now_there(self, container_id: str, now_ms: int) -> ProcessorWork:
        """Note that this container is expected, and its process waits for its start."""
        work = replace(self, there=self.there | ({container_id} & ids_of(self.expected)))
        if work.runs_on_until_ms is None or work.awaits_process:
            return work
        warmed_ms = min(work.runs_on_until_ms, now_ms + _WARMED_MS)
        return replace(work, runs_on_until_ms=warmed_ms)

    def now_at_work(self, container_id: str, now_ms: int) -> ProcessorWork:
        """Note that this container processes its tasks."""
        if container_id not in ids_of(self.running) - self.ending:
            return self
        ids = {container_id}
        work = replace(self, at_work=self.at_work | ids, starting=_without(self.starting, ids))
        if work.is_at_work:
            work = replace(work, standbys_ms=min(work.standbys_ms, now_ms + _RESTORED_MS))
        awaited = {
            each.processor_id for each in _actives(work.wanted) if work.silent & each.tasks.keys()
        }
        if not work.silent or not awaited or not awaited <= work.at_work:
            return work
        return replace(work, silent=frozenset(), silent_ms=now_ms - work.silent_since_ms)

    def ordered(self, now_ms: int, runs_on_ms: int) -> tuple[ProcessorWork, Orders]:
        """Return what is to end and to start now: nothing while a container lives that has one of its tasks.

        A container runs on for at most `runs_on_ms` until the process is there that is to go on
        with its tasks.
        """
        ends = ids_of(self.running) - ids_of(self.wanted) - self.ending
        replaced = self._replaced() & ends
        until_ms = self.runs_on_until_ms
        if until_ms is None:
            until_ms = now_ms + runs_on_ms if self.awaits_process else now_ms
        runs_on = bool(replaced) and now_ms < until_ms
        if runs_on:
            ends -= replaced
        work = replace(
            self._silenced(ends, now_ms),
            ending=self.ending | ends,
            runs_on_until_ms=until_ms if runs_on else None,
        )
        actives = work.free_to_start(TaskMode.ACTIVE)
        if actives:
            work = replace(work, standbys_ms=now_ms + _STARTED_MS)
        running = (*self.running, *actives)
        expected = tuple(each for each in _actives(self.wanted) if each not in running)
        there = self.there & ids_of(tuple(each for each in expected if each in self.expected))
        work = replace(work, running=running, expected=expected, there=there)
        may_start = work.have_actives_started and now_ms >= work.standbys_ms
        standbys = work.free_to_start(TaskMode.STANDBY) if may_start else ()
        starts = (*actives, *standbys)
        starting = {**self.starting, **dict.fromkeys(ids_of(starts), now_ms)}
        work = replace(work, running=(*running, *standbys), starting=starting)
        return work, Orders(ends, starts)

    def free_to_start(self, mode: TaskMode) -> Containers:
        """Return containers of this mode that may start: agreed on, with no task in another container."""
        return tuple(
            each
            for each in self.wanted
            if each.mode is mode
            and each not in self.running
            and each.processor_id not in self.awaited
            and not any(each.tasks.keys() & other.tasks.keys() for other in self.running)
        )

    def _replaced(self) -> frozenset[str]:
        """Return containers with active tasks that another one continues."""
        staying = _active_tasks(self.wanted)
        return ids_of(tuple(e for e in _actives(self.running) if staying & e.tasks.keys()))

    def _silenced(self, ends: frozenset[str], now_ms: int) -> ProcessorWork:
        ending = tuple(each for each in self.running if each.processor_id in ends)
        silent = _active_tasks(ending) | self.silent
        silent = silent & _active_tasks(self.wanted) if self.version else silent
        since_ms = self.silent_since_ms if self.silent else now_ms
        return replace(self, silent=frozenset(silent), silent_since_ms=since_ms)


def _actives(containers: Containers) -> Containers:
    return tuple(each for each in containers if each.mode is TaskMode.ACTIVE)


def _active_tasks(containers: Containers) -> set[str]:
    return {name for each in _actives(containers) for name in each.tasks}


def _without(starting: Mapping[str, int], ids: Collection[str]) -> dict[str, int]:
    return {own: ms for own, ms in starting.items() if own not in ids}


NO_WORK = ProcessorWork()
"""Of a processor that has just come."""
