"""A group of standalone processors in virtual time: production's runner and ZooKeeper code over a virtual ZooKeeper.

Every processor has clocks of its own, which run too fast or too slow. Between any two of its calls others act; calls
fail, some of them though they were carried out; watches fire late and out of order, followers are behind, and readings are of several
moments. Containers hang, fail and end late; processors pause, in the middle of what they do too, are cut off, crash at any call,
come back under their id while their session lives on, leave. Sessions are renewed between two calls, and ZooKeeper loses its
quorum. Brokers refuse whose session is over. Somebody asks for tasks to be placed and processors to be
restarted, and overwrites and deletes nodes by hand. The job's input gets more partitions.
What is judged, after everything that happens: no active task has two owners, versions and agreed versions
only grow, nobody runs what no agreed version gave it, a version ends no container whose active tasks all stay, a processor
has few containers, each task in one of them, no processor ends by an error or gives up without a reason, work has stopped
before its session is over, who has left is shut out before a version is agreed on, a version for requests moves what they name and nothing else,
none is made without a cause or by what wasn't so while its leader read, and what `standalone_requests` judges of requests.
At the end of a history, when nothing fails any more: the group is at work, each task has its owner and each input its task, each request its end, no container
hangs, and for 24 hours no version is made and nobody looks without a pause.

With Samza's own processors in the group these follow the same rules but for requests, which they leave, hold
no standbys, and work on for two thirds of a session's time after theirs may be over, as Java's do that are cut off.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from kazoo.exceptions import ConnectionLoss, NoNodeError

from samza_dagster.assignment import by_container_count, by_container_ids, by_locality
from samza_dagster.assignment.comparison import inputs_of
from samza_dagster.metadata.zookeeper_store import segments_of
from samza_dagster.model import ContainerModel, JobModel, TaskMode
from samza_dagster.model.naming import active_task_of
from samza_dagster.standalone import commands, requests
from samza_dagster.standalone.group import BarrierState, GroupView, Member
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.simulation.standalone_process import (
    PATHS,
    Judge,
    SamzasSession,
    VirtualFence,
    VirtualProcess,
    places,
)
from tests.simulation.standalone_requests import Placement, request_of
from tests.simulation.standalone_server import Change, Server, Session

SETTINGS = Settings(debounce_ms=2_000, consensus_ms=4_000, session_ms=3_000, start_ms=5_000, stop_ms=1_000, probe_ms=9_000)  # fmt: skip
_SAMZAS_STOP_MS = -SETTINGS.session_ms * 2 // 3
"""As `stop_ms`: one session's time after it noticed, two thirds into it, that it is cut off."""
_TASKS = 4
_COUNTED_WITHIN_MS = 3_000
_CALLS_A_SESSION = 6
"""A call fails that has no answer within such a part of the session's time."""
_DRIFT = 0.01
_CALM_MS = 180_000
_AT_REST_MS = 24 * 3_600_000
_FOR_EVER_MS = 10**15
_DEEPEST = 3
"""So many processors are in the middle of a turn at once, at most."""


class GroupViolation(AssertionError):
    """An invariant broke; the message names it, the history's seed, and when."""


class _Killed(BaseException):
    """The processor is gone, in the middle of what it did."""


def plan_of(seed: int) -> JobPlan:
    """By which processors publish, of a job with four tasks and mostly a standby of each.

    In every fifth history it is by one of Samza's groupers, in every seventh without standbys or with two, in every third without stores.
    """
    grouper = by_locality if seed % 5 else (by_container_ids, by_container_count)[seed // 5 % 2]
    replicas = {3: 0, 5: 2}.get(seed % 7, 1)
    return JobPlan({"in": _TASKS}, {"in": "kafka"}, replicas, grouper, is_stateful=bool(seed % 3))


def world_of(seed: int) -> StandaloneWorld:
    """The history of a seed as `simulate` runs it: in every other one half of the processors are Samza's own."""
    return StandaloneWorld(
        seed,
        plan_of(seed),
        follows_pins=bool(seed % 5),
        beside_samza=bool(seed % 2),
    )


class _Weather:
    """What befalls the calls of one processor."""

    def __init__(self, world: StandaloneWorld) -> None:
        self.world = world
        self.process: VirtualProcess | None = None

    def before(self) -> None:
        if self.process is not None:
            self.world.before_call(self.process)

    def after_write(self) -> None:
        if self.process is not None:
            self.world.after_write(self.process)

    def seen(self, seen: int, newest: int) -> int:
        return self.world.seen(seen, newest)


class StandaloneWorld(Judge):
    """One history. `beside_samza`: every other processor is Samza's own."""

    def __init__(
        self,
        seed: int,
        plan: JobPlan,
        *,
        follows_pins: bool = True,
        beside_samza: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.now_ms = 1_000_000
        self.events = 0
        self._plan = plan
        self._tasks = frozenset(f"Partition {number}" for number in range(_TASKS))
        self._follows_pins = follows_pins
        self._beside_samza = beside_samza
        self._server = Server(SETTINGS.session_ms, lambda: self.now_ms)
        looker = Session(self._server)
        self._server.heard_ms[looker.number] = _FOR_EVER_MS
        self._looker = ZooKeeperGroup(looker, PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
        self._placement = Placement()
        self._processes: list[VirtualProcess] = []
        chance = self.random
        self._settings = replace(
            SETTINGS,
            debounce_ms=chance.choice([0, 0, 500, 2_000]),
            containers=chance.choice([1, 2, 3]),
            probe_ms=chance.choice([300, 3_000, 9_000, 600_000]),
        )
        self._has_pauses = chance.random() < 0.5
        """Only a warden's lease ends what a paused process runs; without pauses there is none, and calls take no time."""
        self._interleaved = chance.choice([0.002, 0.01])
        self._failing = chance.choice([0, 0.003, 0.01])
        self._lags = chance.random() < 0.5
        self._trouble = chance.choice([0.1, 0.3, 1])
        """In how far processors pause, are cut off, end, come and go: all the time they get nowhere."""
        self._hangs = seed % 5 == 1
        if self._hangs:
            self._trouble = 0.1  # else no start takes as long as one may take
        self._by_hand = chance.choice([0, 0.01, 0.03]) if not beside_samza else 0
        self._let_in: dict[str, bool] | None = (
            {} if chance.random() < 0.4 and not beside_samza else None
        )
        self._gone: set[str] = set()
        self._grows = chance.choice([0, 0.0003, 0.0003]) if not self._by_hand else 0
        self._asks = chance.choice([0, 0.01, 0.05])
        self._ghosts: list[tuple[ContainerModel, int, bool]] = []
        self._watches: list[tuple[int, VirtualProcess]] = []
        self._depth = 0
        self._is_calm = False
        self._agreed = 0
        self._version = self._changed_ms = 0
        self._at_work = -1
        self._answers = Counter[str]()
        self._published: tuple[tuple[Member, ...], int] = ((), 0)
        for number in range(chance.randint(1, 4)):
            self._join(f"p{number}")

    @property
    def versions_agreed(self) -> int:
        """The newest version that the group has agreed on, and so how many at most."""
        return self._agreed

    @property
    def answers(self) -> Counter[str]:
        """How many requests ended by which status."""
        return self._answers

    def run(self, events: int) -> None:
        """So many events, then calm; raises `GroupViolation`."""
        while self.events < events:
            self._happen()
        self._calm()

    def _join(self, processor_id: str) -> None:
        chance = self.random
        weather = _Weather(self)
        is_samzas = self._beside_samza and processor_id in {"p1", "p3", "p5"}
        process = VirtualProcess(
            (SamzasSession if is_samzas else Session)(self._server, weather),
            self,
            chance,
            lambda: self.now_ms,
            1 + chance.uniform(-_DRIFT, _DRIFT),
            chance.randrange(10_000),
            chance.choice([-60_000, 0, 0, 60_000]),
            is_samzas=is_samzas,
            fence=None if self._let_in is None else VirtualFence(self._let_in, self._is_failing),
            hangs=self._hangs,
            has_wardens=self._has_pauses,
            plan=self._plan,
        )
        settings = self._settings
        if process.is_samzas:
            settings = replace(settings, stop_ms=_SAMZAS_STOP_MS)
        process.begin(processor_id, f"h{chance.randrange(3)}", settings)
        weather.process = process
        self._processes.append(process)

    def _is_failing(self) -> bool:
        return not self._is_calm and self.random.random() < 10 * self._failing

    # What happens.

    def _happen(self) -> None:
        self.events += 1
        chance = self.random
        dice = chance.random()
        if dice > 0.957 and chance.random() > self._trouble:
            dice = 0.5
        if dice < 0.5 or not self._processes:
            self._pass(chance.randrange(1, 300) if self._depth == 0 or self._has_pauses else 0)
        if not self._processes or (dice > 0.995 and len(self._processes) < 6):
            self._join(f"p{chance.randrange(6)}")
            return
        process = chance.choice(self._processes)
        if 0.957 < dice < 0.958:
            self._lose_quorum()
        elif 0.958 <= dice < 0.96:
            process.fail()
        elif 0.96 <= dice < 0.965 and self._has_pauses and not process.is_samzas:
            process.paused_until_ms = self.now_ms + chance.randrange(8_000)
        elif 0.965 <= dice < 0.98:
            process.cut_off_until_ms = self.now_ms + chance.randrange(8_000)
        elif 0.98 <= dice < 0.986:
            self._crash(process)
        elif 0.986 <= dice < 0.992:
            process.runner.leave()
        if chance.random() < self._asks:
            self._placement.ask(self._server, request_of(chance, self._tasks, self.now_ms))
        if self._version and chance.random() < self._grows:
            self._grow()
        if chance.random() < self._by_hand:
            self._change_by_hand()
        if chance.random() < 0.2 or (
            process.woken_ms is not None and self.now_ms >= process.woken_ms
        ):
            self._turn(process)
        self._judge()

    def before_call(self, process: VirtualProcess) -> None:
        """Others act between two calls of a processor; it may be paused there, or die."""
        chance = self.random
        if self._is_calm:
            return
        dice = chance.random()
        if dice < self._interleaved and self._depth < _DEEPEST:
            for _ in range(chance.randint(1, 3)):
                self._meanwhile()
            if self._has_pauses and chance.random() < 0.1 and not process.is_samzas:
                process.paused_until_ms = self.now_ms + chance.randrange(8_000)
        elif dice > 1 - 0.05 * self._failing:
            self._crash(process)
        while self.now_ms < process.paused_until_ms and process in self._processes:
            self._meanwhile() if self._depth < _DEEPEST else self._pass(200)
        if process not in self._processes:
            raise _Killed
        gives_up_ms = self.now_ms + self._settings.session_ms // _CALLS_A_SESSION
        while self._has_pauses and self.now_ms < min(process.cut_off_until_ms, gives_up_ms):
            self._pass(100)  # as kazoo waits for a connection, which may come
        if self.now_ms < process.cut_off_until_ms or chance.random() < self._failing:
            raise ConnectionLoss

    def after_write(self, process: VirtualProcess) -> None:
        """What it wrote is there. Its answer may be lost."""
        self._note_changes(process)
        if not self._is_calm and self.random.random() < self._failing:
            raise ConnectionLoss

    def seen(self, seen: int, newest: int) -> int:
        """How far the follower of a session has come that has shown it that before."""
        if self._is_calm or not self._lags or seen >= newest or self.random.random() < 0.7:
            return newest
        return self.random.randint(seen, newest)

    def _meanwhile(self) -> None:
        self._depth += 1
        self._happen()
        self._depth -= 1

    def _pass(self, ms: int) -> None:
        """Who isn't paused looks at its clock when its time has come."""
        end_ms = self.now_ms + ms
        due = sorted(
            (at_ms, number)
            for number, process in enumerate(self._processes)
            if self.now_ms < (at_ms := process.stops_by_itself_ms()) <= end_ms
        )
        awake = [(at_ms, self._processes[number]) for at_ms, number in due]
        for at_ms, process in awake:
            self._advance_to(max(at_ms, self.now_ms))
            self._turn(process)
        self._advance_to(max(end_ms, self.now_ms))

    def _advance_to(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for process in self._processes:  # kazoo's own thread
            is_heard = now_ms >= max(process.paused_until_ms, process.cut_off_until_ms)
            if now_ms >= max(process.paused_until_ms, process.counts_ms):
                process.count(self._plan)
            if not is_heard:
                continue
            if not process.session.is_over:
                self._server.heard_ms[process.session.number] = now_ms
            elif not self._is_calm and self.random.random() < 0.3:  # before anybody asks again
                process.session.renew()
        self._judge_sessions()
        self._server.expire()
        self._note_changes(None)
        self._ghosts = [ghost for ghost in self._ghosts if now_ms < ghost[1]]
        for process in self._processes:
            process.end_what_is_due(now_ms, by_lease=self._has_pauses and not self._is_calm)
        for at_ms, process in [each for each in self._watches if now_ms >= each[0]]:
            self._watches.remove((at_ms, process))
            process.wake()

    def _turn(self, process: VirtualProcess) -> None:
        if (
            self.now_ms < process.paused_until_ms
            or process.is_busy
            or process not in self._processes
        ):
            return
        process.is_busy = True
        try:
            is_there = process.turn()
        except (_Killed, GroupViolation) as end:
            if isinstance(end, GroupViolation):
                raise
            return
        except Exception as error:
            raise self.broken("no processor ends by an error", repr(error)) from error
        finally:
            process.is_busy = False
        if not is_there:
            self._processes.remove(process)
            if self.now_ms >= process.cut_off_until_ms:
                process.session.stop()
                self._note_changes(None)
            if not self._is_calm and self.random.random() < 0.7:  # as a service manager does
                self._join(process.state.processor_id)

    def _crash(self, process: VirtualProcess) -> None:
        """The process is gone; its containers end when its warden sees that. It may come back at once, while its session lives on."""
        self._processes.remove(process)
        for each in process.run.values():
            ends_ms = self.now_ms + self.random.randrange(200)
            self._ghosts.append((each, ends_ms, process.is_wrecked))
        if self.random.random() < 0.7:
            self._join(process.state.processor_id)

    def _grow(self) -> None:
        """The job's input gets more partitions; processors count them from time to time."""
        self._grows, more = 0, self.random.choice([_TASKS // 2, _TASKS, 2 * _TASKS])
        self._plan = replace(self._plan, partition_counts={"in": _TASKS + more})
        for process in self._processes:
            process.counts_ms = self.now_ms + self.random.randrange(_COUNTED_WITHIN_MS)

    def _lose_quorum(self) -> None:
        """Nobody reaches ZooKeeper; once it has a leader again, all sessions that it had have their time from then on."""
        until_ms = self.now_ms + self.random.randrange(8_000)
        for process in self._processes:
            process.cut_off_until_ms = max(process.cut_off_until_ms, until_ms)
        for session in self._server.heard_ms:
            self._server.heard_ms[session] = max(self._server.heard_ms[session], until_ms)

    def _change_by_hand(self) -> None:
        """Somebody overwrites a node with what it can't hold, or deletes it."""
        chance, server = self.random, self._server
        group = self._view()
        newest = max((each for each in self._numbers()), default=0)
        member = chance.choice(group.members) if group.members else None
        node = "" if member is None else f"{PATHS.processors}/{member.sequence}"
        path, data = chance.choice(
            [
                (PATHS.version, b"garbage"),
                (PATHS.version, str(chance.randrange(newest + 3)).encode()),
                (PATHS.version, None),
                (PATHS.agreed_version, b"garbage"),
                (PATHS.agreed_version, None),
                (PATHS.barrier_state(newest), b"garbage"),
                (PATHS.barrier_state(newest), None),
                *[(f"{PATHS.barriers}/barrier_{newest}", None)] * 4,  # versions go back
                (PATHS.barrier_participants(newest), None),
                (f"{PATHS.models}/{newest}/0", segments_of(b"garbage")[0]),
                (f"{PATHS.models}/{newest}", None),
                (f"{PATHS.task_locality}/Partition 0", b"\xff\xfe"),
                (PATHS.task_locality, None),
                (f"{PATHS.running}/{node.rpartition('/')[2]}", b"garbage"),
                (f"{PATHS.pins}/Partition 1", b"garbage"),
                (f"{PATHS.restarts}/p{chance.randrange(6)}", b"garbage"),
                (PATHS.restarts, None),
                (node, b"garbage"),
                (node, None),
            ]
        )
        self._published = ((), 0)
        if not path:
            return
        with suppress(NoNodeError):
            if data is None:
                server.delete_all(path)
            else:
                server.set(path, data, -1, 0)
            if member is not None and path == node:
                for process in self._processes:
                    if process.state.sequence == member.sequence:
                        process.wrecked_node = member.sequence
        if path == PATHS.pins or path.startswith(f"{PATHS.pins}/"):
            self._placement.pins.pop("Partition 1", None)
        server.changes.clear()
        highest = self._view().highest  # of what nobody finds any more, nobody knows that it was
        self._version, self._agreed = min(self._version, highest), min(self._agreed, highest)

    # What is judged.

    def about_to(self, process: VirtualProcess, command: commands.Command) -> None:
        """See `Judge`."""
        if isinstance(command, commands.Register):
            process.joined, process.given = 0, frozenset()
        elif isinstance(command, commands.JoinBarrier):
            work = process.seen.work_of(process.state.processor_id)
            process.given = frozenset(work.tasks) if work is not None else frozenset()
            process.joined = command.version
        elif isinstance(command, commands.StopWork):
            for each in process.interrupted(command.containers):
                raise self.broken("tasks that stay go on", each)
        elif isinstance(command, commands.StartWork):
            placement = self._placement
            tasks = [n for each in command.containers for n in each.tasks]
            # While it hasn't joined the newest version, what both give it may start.
            if process.joined != process.seen.version and not process.given.issuperset(tasks):
                seen = f"{process.state.processor_id} by version {process.seen.version}"
                raise self.broken("who starts has joined since it registered", seen)
            placement.started_ms[process.state.processor_id] = self.now_ms
            placement.started_at |= dict.fromkeys(tasks, process.state.location)
        elif isinstance(command, requests.Forget):
            process.has_tidied = True
        elif isinstance(command, commands.EndBarrier) and self._let_in is not None:
            there = self._server.node(PATHS.processors).children
            self._gone = {each for each in self._let_in if each.rpartition("-")[2] not in there}
        elif isinstance(command, commands.GiveUp) and not process.may_give_up():
            raise self.broken("nobody gives up without a reason", command.why)
        elif isinstance(command, commands.Publish) and not process.is_samzas:
            self._judge_version(process, command)

    def _judge_sessions(self) -> None:
        """Whoever isn't heard of any more has stopped by then, by its own clock or by its wardens'."""
        by_lease = self._has_pauses and not self._is_calm
        for process in self._processes:
            over_ms = self._server.over_ms(process.session.number)
            if over_ms is None or self.now_ms < over_ms or process.is_samzas:
                continue
            for each in process.outliving(over_ms, by_lease=by_lease):
                raise self.broken("work has stopped before its session is over", each)

    def failed(self, process: VirtualProcess) -> None:
        """See `Judge`."""
        del process
        self._published = ((), 0)  # it may publish once more

    def _judge_reading(self, process: VirtualProcess, seen: GroupView) -> None:
        """What a leader decides on was so at some time while it read."""
        for path in (PATHS.task_locality, PATHS.standby_locality):
            for name in self._server.names_since(path, process.reads_from):
                found = self._server.data_since(f"{path}/{name}", process.reads_from)
                was = {data.decode(errors="replace") if data else None for data in found}
                if seen.locality.get(name) not in was:
                    seen_at = seen.locality.get(name)
                    raise self.broken(
                        "it decides on what it reads", f"{name} at {seen_at}, not {was}"
                    )

    def _judge_version(self, process: VirtualProcess, command: commands.Publish) -> None:
        seen = process.seen
        self._judge_reading(process, seen)
        if self._follows_pins:
            for broken in self._placement.unmet(command.model, seen):
                raise self.broken(broken, f"version {command.version}")
        if self._published != (seen.members, seen.version) or seen.model is None:
            return
        if seen.barrier is None or seen.barrier.state is not BarrierState.DONE:
            return
        before, after = places(seen.model.containers), places(command.model.containers)
        moved = {task for task in before if before[task] != after.get(task)}
        asked = {task for task, _ in requests.moving(seen)}
        allowed = {
            task for task in moved if active_task_of(task) in set(map(active_task_of, asked))
        }
        if asked and self._follows_pins and moved - allowed:
            raise self.broken("a request moves what it names alone", f"{sorted(moved)} for {asked}")
        if inputs_of(command.model) != inputs_of(seen.model):
            return
        if not asked and _spread(command.model) >= _spread(seen.model):
            raise self.broken("no version without a cause", f"{command.version}")

    def _note_changes(self, process: VirtualProcess | None) -> None:
        server = self._server
        changes, server.changes = server.changes, []
        for change in changes:
            self._judge_change(change, process)
        fired, server.fired = server.fired, []
        for watch in fired:
            owner = getattr(watch, "__self__", None)
            late_ms = self.random.randrange(400 if self.random.random() < 0.95 else 3_000)
            for each in self._processes:
                if each.runner.owns(owner) and not self._is_calm:
                    self._watches.append((self.now_ms + late_ms, each))
                elif self._is_calm:
                    each.wake()

    def _judge_change(self, change: Change, process: VirtualProcess | None) -> None:
        if change.path == PATHS.version and change.data:
            version = int(change.data)
            if version <= self._version:
                raise self.broken("versions only grow", f"{version} after {self._version}")
            self._version, self._changed_ms = version, self.now_ms
            if process is not None:
                self._published = (process.seen.members, version)
        elif change.path == PATHS.agreed_version and change.data:
            agreed = int(change.data)
            let_in = self._let_in or {}
            for each in [each for each in self._gone if let_in[each]]:
                raise self.broken("who has left is shut out before all agree", each)
            if agreed <= self._agreed:
                raise self.broken("agreed versions only grow", f"{agreed} after {self._agreed}")
            self._agreed = agreed
        else:
            for broken in self._placement.written(change, process, self._view):
                raise self.broken(broken, change.path)

    def _view(self) -> GroupView:
        changes, self._server.changes = self._server.changes, []
        try:
            view = replace(self._looker.view(None), read_ms=self.now_ms)
        except Exception as error:
            raise self.broken("who looks on can read the group", repr(error)) from error
        self._server.changes = changes
        return view

    def _numbers(self) -> list[int]:
        node = self._server.nodes.get(PATHS.models)
        return [int(name) for name in node.children] if node is not None else []

    def _calm(self) -> None:
        """Nothing fails any more; then nothing happens any more."""
        self._is_calm, self._hangs, self._changed_ms = True, False, self.now_ms
        for process in self._processes:
            process.paused_until_ms, process.cut_off_until_ms = 0, 0
            process.hangs = process.has_wardens = False
        if self._version and self._grows:
            self._grow()
        self._settle(_CALM_MS)
        for _ in range(4 if self._settings.probe_ms > _CALM_MS else 0):
            self._advance_to(self.now_ms + self._settings.probe_ms)
            self._changed_ms = self.now_ms
            self._settle(_CALM_MS // 4)
        for process in self._processes:
            if process.is_wrecked:
                raise self.broken("who has lost its node ends", process.state.processor_id)
        owned = [task for run, _ in self._running() for task in _actives(run)]
        if sorted(owned) != sorted(self._tasks):
            raise self.broken("no task forgotten", f"{sorted(owned)} run after {_CALM_MS} ms")
        if not self._view().is_at_work:
            raise self.broken("a group comes to work", f"not after {_CALM_MS} ms")
        for process in self._processes:
            count = len(process.active_containers())
            if count > process.state.settings.containers:
                raise self.broken("few containers when all is calm", f"{count}")
            for hung in process.hung(self.now_ms):
                raise self.broken("no container hangs for good", hung)
        self._judge_inputs(self._view())
        left, leader = self._placement.open_ones(), self._view().leader
        if left and leader is not None and leader.holds_standbys and not self._by_hand:
            raise self.broken("each request ends", f"{left} after {_CALM_MS} ms")
        codes = (each.status_code.value for each in self._placement.responses.values())
        self._answers = Counter(codes)
        self._rest()

    def _judge_inputs(self, group: GroupView) -> None:
        """What the input has got is read by the task that has its keys; else it is said that nobody reads it."""
        count = self._plan.partition_counts["in"]
        is_taken = not self._plan.is_stateful and count % _TASKS == 0
        read = range(count if is_taken else _TASKS)
        owed = {("in", number): f"Partition {number % _TASKS}" for number in read}
        if not self._by_hand and inputs_of(group.model) != owed:
            raise self.broken("inputs that grow have their task", f"{inputs_of(group.model)}")
        leader = group.leader
        if count == len(read) or leader is None or not leader.holds_standbys:
            return
        if not group.running[leader.sequence].trouble:
            raise self.broken("it is said what nobody reads", f"{count - len(read)} partitions")

    def _settle(self, ms: int) -> None:
        ends_ms = self.now_ms + ms
        while self.now_ms < ends_ms and not self._has_settled():
            if not self._processes:  # as a service manager does, also for one that gave up
                self._join("p0")
            quiet_ms = min((p.woken_ms or 0 for p in self._processes), default=0) - self.now_ms
            self._pass(max(self.random.randrange(1, 300), min(quiet_ms, 500)))
            for process in list(self._processes):
                if process.woken_ms is None or self.now_ms >= process.woken_ms:
                    self._turn(process)
            self._judge()

    def _has_settled(self) -> bool:
        """Nothing has changed for several probes, and nothing is left to do."""
        probe_ms = self._settings.probe_ms
        quiet_ms = 5_000 + (4 * probe_ms if probe_ms <= _CALM_MS else 0)
        if self.now_ms < self._changed_ms + quiet_ms or self._placement.open_ones():
            return False
        self._changed_ms = self.now_ms - quiet_ms + 1_000
        have_started = all(process.has_settled() for process in self._processes)
        is_at_work = bool(self._processes) and have_started and self._view().is_at_work
        if (
            is_at_work and self._at_work != self._version
        ):  # its leader begins to ask for better from now on
            self._at_work, self._changed_ms = self._version, self.now_ms
            return False
        return is_at_work

    def _rest(self) -> None:
        before, steps, hasty = self._version, 12, list[str]()
        for _ in range(steps):
            self.now_ms += _AT_REST_MS // steps
            self._advance_to(self.now_ms)
            for _ in range(3):
                for process in list(self._processes):
                    self._turn(process)
                hasty = [p.state.processor_id for p in self._processes if p.is_hasty]
                self._advance_to(self.now_ms + 100)
            for each in hasty:
                raise self.broken("who has nothing to do looks at leisure", each)
        if self._version != before:
            raise self.broken(
                "a group at rest stays at rest", f"{self._version - before} versions in a day"
            )

    def _running(self) -> Iterator[tuple[ContainerModel, bool]]:
        """And whether somebody has wrecked its processor's node."""
        for process in self._processes:
            for run in process.run.values():
                yield run, process.is_wrecked
        yield from ((run, is_wrecked) for run, _, is_wrecked in self._ghosts)

    def _judge(self) -> None:
        for process in self._processes:
            count = len(process.active_containers())
            if count > process.state.settings.containers + 1:
                raise self.broken("few containers", f"{count} of {process.state.processor_id}")
        owned: set[str] = set()
        for run, is_wrecked in self._running():
            for task in () if is_wrecked else _actives(run):
                if task in owned:
                    raise self.broken("one owner for a task", task)
                owned.add(task)
        there: dict[tuple[str, str], str] = {}
        for process in self._processes:
            for task in () if process.is_wrecked else process.tasks():
                place = process.state.location
                if there.setdefault((active_task_of(task), place), task) != task:
                    raise self.broken("copies of a task are elsewhere", f"{task} at {place}")

    def broken(self, rule: str, seen: str) -> GroupViolation:
        """See `Judge`."""
        return GroupViolation(f"{rule}: {seen}; seed {self.seed}, event {self.events}")


def _actives(run: ContainerModel) -> list[str]:
    return [n for n, task in run.tasks.items() if task.task_mode is TaskMode.ACTIVE]


def _spread(model: JobModel) -> tuple[int, ...]:
    """The loads from the highest down, of actives and then of all: who has less of that is spread better."""
    loads = [list(each.tasks.values()) for each in model.containers.values()]
    actives = [sum(task.task_mode is TaskMode.ACTIVE for task in tasks) for tasks in loads]
    return (
        -sum(map(len, loads)),
        *sorted(actives, reverse=True),
        *sorted(map(len, loads), reverse=True),
    )
