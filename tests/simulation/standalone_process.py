"""One processor of a virtual group: production's runner over a virtual ZooKeeper, its clock, its containers and its fence.

Containers take a while to start and to end, and hang. Its wardens end them when their lease is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from samza_dagster.agent.lease import Now
from samza_dagster.errors import Fenced, Unreachable
from samza_dagster.model import ContainerModel, JobModel, TaskMode
from samza_dagster.standalone import commands
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import BarrierState, GroupView
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.processor import ProcessorState, Settings
from samza_dagster.standalone.runner import ProcessorRunner
from tests.simulation.standalone_server import Session

PATHS = GroupPaths.of({"job.name": "virtual"})
_HANGING = 0.3
_STOPS_WITHIN_MS = 900
"""Less than `stop_ms` by what the clocks may differ over a session."""
_SLOWLY_WITHIN_MS = 6_000
"""Where wardens end what is slow."""
_AT_WORK_WITHIN_MS = 2_000
_WARM_WITHIN_MS = 4_000
_NEVER_MS = 10**12


class Judge:
    """Hears what processors do, before and after; by default nothing is wrong with it."""

    def about_to(self, process: VirtualProcess, command: commands.Command) -> None:
        """It is going to carry this out."""

    def failed(self, process: VirtualProcess) -> None:
        """A write of it failed, or its answer was lost."""

    def broken(self, rule: str, seen: str) -> AssertionError:
        """What to raise."""
        return AssertionError(f"{rule}: {seen}")


class SamzasSession(Session):
    """Of one of Samza's own processors, which announce nothing."""

    def create(self, path: str, data: bytes | None = None, **how: bool) -> Any:
        """As kazoo's."""
        if path.startswith(f"{PATHS.standby_processors}/"):
            return path
        return super().create(path, data, **how)


class _Runner(ProcessorRunner):
    """Production's, which lets a judge see what it reads and does."""

    process: VirtualProcess
    _has_failed: bool = False
    _rests: int = 0

    def _step(self) -> None:
        self._has_failed = False
        super()._step()
        state, group, now_ms = self._state, self.process.seen, self._now_ms()
        first, due_ms = group.first_of(state.processor_id), rules.wake_ms(state)
        is_duplicate = first is not None and first.sequence != state.sequence
        self._rests += 1
        if self.is_woken or self._has_failed or is_duplicate or self._rests % 3:
            return  # a third of them shows it, too
        before_ms = now_ms + _NEVER_MS if due_ms is None else due_ms - 1
        _, late = rules.step(state, group, before_ms, self._grouper, state.heard_ms)
        if late and before_ms > now_ms:
            raise self.process.judge.broken("what is due wakes its processor", f"{late}")

    @property
    def is_woken(self) -> bool:
        """Whether it has something to do before its time comes."""
        return self._woken.is_set()

    def owns(self, group: object) -> bool:
        """Whether that watches for it."""
        return group is self._group

    def _read(self) -> GroupView | None:
        self.process.reads_from = self.process.session.server.zxid
        self.process.asked_ms = self.process.world_ms()
        group = super()._read()
        self.process.tell_of_containers()  # as their threads do
        if group is not None:
            group = replace(group, read_ms=self.process.world_ms() + self.process.wall_ahead_ms)
        if group is not None and self.process.is_samzas:
            said = {s: r for s, r in [(self._state.sequence, self._state.running)] if s and r}
            said = {**group.running, **said}
            group = replace(group, requests=(), responses={}, pins={}, restarts={}, running=said)
        self.process.seen = group or GroupView()
        self._has_failed |= group is None
        return group

    def _carry_out(self, command: commands.Command) -> None:
        process = self.process
        if process.is_samzas and isinstance(command, commands.ReportRunning):
            return
        process.judge.about_to(process, command)
        try:
            super()._carry_out(command)
        except (Unreachable, Fenced):
            self._has_failed = True
            process.judge.failed(process)
            raise


@dataclass
class VirtualFence:
    """The brokers' word for all of a group: whose login is let in. A processor knows its own since it started."""

    let_in: dict[str, bool]
    fails: Callable[[], bool]
    own: list[str] = field(default_factory=list[str])

    def admit(self, registration: str) -> None:
        """As `GroupFence`."""
        if registration not in self.own:
            self.own.append(registration)
        if self.fails():
            raise Unreachable("make a login", seen="no broker answers")
        self.let_in.setdefault(registration, True)

    def shut_out_others(self, version: int, registered: Callable[[], Set[str]]) -> None:
        """As `GroupFence`."""
        del version
        present = [each for each, is_in in self.let_in.items() if is_in]
        there = registered()
        for each in present:
            self.let_in[each] = each in there


@dataclass(eq=False)
class VirtualProcess:
    """`run` are its containers by id, each with its login; when each of them will have ended, be at work or ready to start, in the world's time.

    `hangs`: a container may start that is never at work. `has_wardens` end it when its lease is over; those that `failed` have ended by themselves. `was_ended`: one has ended that it hadn't told to, and others
    may run on. `is_busy`: it is in the middle of a turn. `wrecked_node`: the sequence of its node that somebody has deleted or overwritten.
    `joined`: the newest version whose barrier it has joined since it registered, which gave it the tasks `given`. It `has_tidied` in its newest turn: old answers are gone, which wakes it.
    """

    session: Session
    judge: Judge
    random: Random
    world_ms: Callable[[], int]
    rate: float
    offset_ms: int
    wall_ahead_ms: int
    plan: JobPlan
    is_samzas: bool = False
    fence: VirtualFence | None = None
    run: dict[str, ContainerModel] = field(default_factory=dict[str, ContainerModel])
    logins: dict[str, str] = field(default_factory=dict[str, str])
    ends_ms: dict[str, int] = field(default_factory=dict[str, int])
    at_work_ms: dict[str, int] = field(default_factory=dict[str, int])
    warm_ms: dict[str, int] = field(default_factory=dict[str, int])
    hangs: bool = False
    has_wardens: bool = False
    failed: set[str] = field(default_factory=set[str])
    was_ended: bool = False
    is_busy: bool = False
    wrecked_node: str | None = None
    joined: int = 0
    given: frozenset[str] = frozenset()
    has_tidied: bool = False
    has_begun: bool = False
    lease_ms: int = 0
    woken_ms: int | None = 0
    counts_ms: int = 0
    asked_ms: int = 0
    reads_from: int = 0
    paused_until_ms: int = 0
    cut_off_until_ms: int = 0
    seen: GroupView = field(default_factory=GroupView)
    _stopped: Callable[[str], None] = lambda _: None
    _at_work: Callable[[str], None] = lambda _: None
    _there: Callable[[str], None] = lambda _: None

    def begin(self, processor_id: str, location: str, settings: Settings) -> None:
        """Makes its runner."""
        self.runner = _Runner(
            self.session,  # pyright: ignore[reportArgumentType]
            PATHS,
            processor_id=processor_id,
            location=location,
            settings=settings,
            grouper=self._model,
            refused=self._refused,
            containers=self,
            fence=self.fence,
            now_ms=lambda: self.clock(self.world_ms()),
        )
        self.runner.process = self

    @property
    def is_wrecked(self) -> bool:
        """Whether its node is gone by hand; one that has registered anew since has another."""
        return self.wrecked_node is not None and self.state.sequence == self.wrecked_node

    def may_give_up(self) -> bool:
        """Somebody has deleted its node or has its id, or a container hangs that has had its time."""
        state = self.state
        first, late = self.seen.first_of(state.processor_id), state.work.longest_start
        node = first and self.session.server.nodes.get(f"{PATHS.processors}/{first.sequence}")
        is_own = node is not None and node.ephemeralOwner == self.session.number
        is_duplicate = first is not None and first.sequence != state.sequence and not is_own
        hangs = late is not None and (
            self.at_work_ms.get(late.container, 0)
            >= self.world_ms() + _NEVER_MS - 2 * state.settings.start_ms
        )
        return self.is_wrecked or is_duplicate or hangs

    @property
    def state(self) -> ProcessorState:
        """Of its rules."""
        return self.runner.state

    @property
    def is_hasty(self) -> bool:
        """What was due before its newest turn still is: it looks again without a pause."""
        due_ms = rules.wake_ms(self.state)
        is_due = due_ms is not None and due_ms <= self.clock(self.world_ms())
        return (is_due or self.runner.is_woken) and not self.has_tidied

    def turn(self) -> bool:
        """One turn of its runner; False once it has left."""
        self.has_tidied = False
        self.tell_of_containers()
        if not self.has_begun:
            try:
                self.runner.begin()
            except Unreachable:
                return True
            self.has_begun = True
        is_there = self.runner.turn()
        wait_s = 0 if self.runner.is_woken else self.runner.wait_s
        self.woken_ms = self.world_ms() + math.ceil(wait_s * 1_000 / self.rate)
        return is_there

    def _model(self, group: GroupView, staying: Set[str]) -> JobModel:
        return self.plan.model(group, staying)

    def _refused(self, group: GroupView) -> str:
        return self.plan.refused(group)

    def count(self, plan: JobPlan) -> None:
        """It counts the job's inputs."""
        if self.plan is not plan:
            self.plan = plan
            self.runner.plan_anew()

    def wake(self) -> None:
        """Something was heard, or it looks by itself."""
        self.woken_ms = self.world_ms()

    def clock(self, now_ms: int) -> int:
        """What it takes for the time."""
        return int(now_ms * self.rate) + self.offset_ms

    def stops_by_itself_ms(self) -> int:
        """When it begins to stop its work without ZooKeeper, in the world's time."""
        return math.ceil((rules.silent_from(self.state) - self.offset_ms) / self.rate)

    def renew(self, asked: Now, lease_s: float) -> None:
        """As a warden's lease, by this machine's clock."""
        del asked
        self.lease_ms = self.asked_ms + int(lease_s * 1_000 / self.rate)

    def end_what_is_due(self, now_ms: int, *, by_lease: bool) -> None:
        """Whatever the process does meanwhile; `by_lease`: its wardens end what outlives the lease."""
        if by_lease and now_ms >= self.lease_ms:
            self.run.clear()
        for ended in [each for each, ms in self.ends_ms.items() if now_ms >= ms]:
            self.run.pop(ended, None)
        if self.fence is not None:
            for each in [each for each in self.run if not self.fence.let_in.get(self.logins[each])]:
                del self.run[each]

    def outliving(self, over_ms: int, *, by_lease: bool) -> list[str]:
        """Its containers that run longer than that."""
        if by_lease and self.lease_ms <= over_ms:
            return []
        return [
            own
            for own in self.run
            if self.ends_ms.get(own, _NEVER_MS) > over_ms
            and (self.fence is None or self.fence.let_in.get(self.logins[own]))
        ]

    def expect(self, command: commands.Expect, there: Callable[[str], None]) -> None:
        """Launches processes, which log in."""
        self._there = there
        self._login(command.containers)
        now_ms = self.world_ms()
        self.warm_ms = {
            each.processor_id: now_ms + self._takes_ms(_WARM_WITHIN_MS)
            for each in command.containers
        }

    def start(self, command: commands.StartWork, at_work: Callable[[str], None]) -> None:
        """Starts them."""
        self._at_work = at_work
        login, now_ms = self._login(command.containers), self.world_ms()
        for each in command.containers:
            own = each.processor_id
            if own in self.run:
                raise self.judge.broken("containers start once", own)
            self.run[own], self.logins[own] = each, login
            self.at_work_ms[own] = now_ms + self._takes_ms(_AT_WORK_WITHIN_MS)

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None:
        """Tells them to end."""
        self._stopped = stopped
        for each in sorted(containers):
            is_slow = self.has_wardens and self.random.random() < _HANGING
            within_ms = _SLOWLY_WITHIN_MS if is_slow else _STOPS_WITHIN_MS
            self.ends_ms[each] = self.world_ms() + self.random.randrange(within_ms)

    def fail(self) -> None:
        """One of its containers ends by itself."""
        live = sorted(self.run.keys() - self.ends_ms.keys())
        if live:
            self.failed.add(live[0])
            del self.run[live[0]]

    def _takes_ms(self, within_ms: int) -> int:
        is_hung = self.hangs and not self.is_samzas and self.random.random() < _HANGING
        return _NEVER_MS if is_hung else self.random.randrange(within_ms)

    def _login(self, containers: Iterable[ContainerModel]) -> str:
        if self.fence is None or not list(containers):
            return ""
        if not self.fence.own or self.fence.own[-1] not in self.fence.let_in:
            raise self.judge.broken("who comes back serves again", "its container has no login")
        return self.fence.own[-1]

    def tell_of_containers(self) -> None:
        """Its runner hears what has ended and what is at work."""
        now_ms = self.world_ms()
        ended = {each.processor_id for each in self.state.work.running} - self.run.keys()
        self.was_ended |= not ended <= self.ends_ms.keys()
        for each in sorted(ended):
            self._stopped_by_itself(each) if each not in self.ends_ms else self._stopped(each)
        self.was_ended &= bool(self.run)
        for each in [each for each, ms in self.at_work_ms.items() if now_ms >= ms]:
            del self.at_work_ms[each]
            self._at_work(each)
        for each in [each for each, ms in self.warm_ms.items() if now_ms >= ms]:
            del self.warm_ms[each]
            self._there(each)
        for each in ended:
            self.ends_ms.pop(each, None)
            self.at_work_ms.pop(each, None)

    def _stopped_by_itself(self, container: str) -> None:
        """Its lease was over, so it starts anew; or it failed, as where its login is refused, and its processor ends."""
        login = self.logins.get(container, "")
        if container in self.failed or (
            self.fence is not None and not self.fence.let_in.get(login)
        ):
            self.runner.leave()
        self.runner.start_anew()

    def has_settled(self) -> bool:
        """It runs what it means to run, in as many containers as it may have."""
        settings, work = self.state.settings, self.state.work
        return work.has_checked_in and len(self.active_containers()) <= settings.containers

    def hung(self, now_ms: int) -> list[str]:
        """Its containers that are never at work."""
        return [
            each for each in self.run if self.at_work_ms.get(each, 0) > now_ms + _AT_WORK_WITHIN_MS
        ]

    def tasks(self) -> list[str]:
        """All that its containers have."""
        return [name for each in self.run.values() for name in each.tasks]

    def active_containers(self) -> list[ContainerModel]:
        """Those that weren't told to end."""
        live = (each for own, each in self.run.items() if own not in self.ends_ms)
        return [each for each in live if each.mode is TaskMode.ACTIVE]

    def interrupted(self, ending: frozenset[str]) -> list[str]:
        """Containers that a version ends before it is agreed on though it leaves all of their active tasks here.

        Unless it has too many of them, or another one has ended by itself, or ZooKeeper was asked too long ago.
        """
        if self.stops_by_itself_ms() <= self.world_ms():
            return []
        barrier, given = self.seen.barrier, self.seen.work_of(self.state.processor_id)
        actives = [each for each in self.run.values() if each.mode is TaskMode.ACTIVE]
        is_new = barrier is not None and barrier.state is BarrierState.NEW
        here = {name for each in actives for name in each.tasks}
        is_starting = any(
            each.mode is TaskMode.ACTIVE and not each.tasks.keys() & here
            for each in self.state.work.wanted
        )
        too_many = len(actives) + is_starting > self.state.settings.containers
        if not is_new or given is None or self.state.sequence is None or too_many or self.was_ended:
            return []
        staying = (
            each.processor_id for each in actives if each.tasks.items() <= given.tasks.items()
        )
        return sorted(ending & set(staying))


def places(models: Mapping[str, ContainerModel]) -> dict[str, str]:
    """Task → processor."""
    return {name: pid for pid, each in models.items() for name in each.tasks}
