"""A group of standalone processors in virtual time: production's `processor.step` over a ZooKeeper that fails.

Every processor has a clock of its own, which runs too fast or too slow. Readings are of one time and arrive
late; containers hang before they are at work; processors pause, in the middle of what they write too, are cut off,
crash, come back under their id, leave; writes fail, some of them though they were carried out. Somebody asks for tasks to be placed and processors to be restarted.
What is judged, after everything that happens: no active task has two owners, versions and agreed versions
only grow, nobody runs what no agreed version gave it, a version ends no container whose active tasks all stay, a processor
has few containers, each task in one of them, and what `standalone_requests` judges of requests.
At the end of a history, when nothing fails any more: each task has its owner, each request its end, no container
hangs.

With Samza's own processors in the group these follow the same rules but for requests, which they leave, hold
no standbys, and work on for two thirds of a session's time after theirs may be over, as Java's do that are cut off.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from samza_dagster.assignment import by_locality
from samza_dagster.model import ContainerModel, TaskMode
from samza_dagster.simulation.standalone_process import VirtualProcess
from samza_dagster.simulation.standalone_requests import request_of
from samza_dagster.simulation.standalone_server import Server
from samza_dagster.standalone import commands
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.processor import Grouper, ProcessorState, Settings
from samza_dagster.standalone.requests import Forget, Respond, SetPin, SetRestart

SETTINGS = Settings(debounce_ms=2_000, consensus_ms=4_000, session_ms=3_000, start_ms=5_000, stop_ms=1_000, probe_ms=9_000)  # fmt: skip
_SAMZAS_STOP_MS = -SETTINGS.session_ms * 2 // 3
"""As `stop_ms`: one session's time after it noticed, two thirds into it, that it is cut off."""
_DRIFT = 0.01
_LATE_MS = 400
_PAUSED_IN_A_STEP = 0.02
_CALM_MS = 90_000
_UNFAILING = commands.Register | commands.StopWork | commands.Expect
"""These write nothing, or it may be repeated; the others' writes fail."""


class GroupViolation(AssertionError):
    """An invariant broke; the message names it, the history's seed, and when."""


def production() -> tuple[Grouper, frozenset[str]]:
    """The plan that processors publish by, of a job with four tasks and a standby of each, and its active tasks."""
    plan = JobPlan({"in": 4}, {"in": "kafka"}, replicas=1, grouper=by_locality)
    return plan.model, frozenset(f"Partition {number}" for number in range(4))


class StandaloneWorld:
    """One history. `beside_samza`: every other processor is Samza's own.

    `is_fenced`: what a processor writes without its node is refused, as `GuardedSession` does.
    """

    def __init__(
        self,
        seed: int,
        grouper: Grouper,
        tasks: frozenset[str],
        *,
        follows_pins: bool = True,
        beside_samza: bool = False,
        is_fenced: bool = True,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a history, no secret
        self.seed = seed
        self.now_ms = 1_000_000
        self.events = 0
        self._grouper = grouper
        self._tasks = tasks
        self._follows_pins = follows_pins
        self._beside_samza = beside_samza
        self._is_fenced = is_fenced
        self._server = Server(SETTINGS.session_ms)
        self._processes: list[VirtualProcess] = []
        self._settings = replace(
            SETTINGS,
            debounce_ms=self.random.choice([0, 0, 500, 2_000]),
            containers=self.random.choice([1, 2, 3]),
        )
        self._has_pauses = self.random.random() < 0.5
        """Only a warden's lease ends what a paused process runs; without pauses there is none."""
        self._is_paused_in_steps = self._has_pauses
        self._has_failing_writes = self.random.random() < 0.3
        self._hangs = seed % 5 == 1
        self._asks = self.random.choice([0, 0.01, 0.05])
        self._ghosts: list[tuple[ContainerModel, int]] = []
        for number in range(self.random.randint(1, 4)):
            self._join(f"p{number}")

    @property
    def versions_agreed(self) -> int:
        """The newest version that the group has agreed on, and so how many at most."""
        return self._server.agreed

    @property
    def answers(self) -> Counter[str]:
        """How many requests ended by which status."""
        return Counter(each.status_code.value for each in self._server.placement.responses.values())

    def run(self, events: int) -> None:
        """So many events, then calm; raises `GroupViolation`."""
        for _ in range(events):
            self._happen()
        self._calm()

    def _join(self, processor_id: str) -> None:
        rate = 1 + self.random.uniform(-_DRIFT, _DRIFT)
        location = f"h{self.random.randrange(3)}"
        settings = self._settings
        if self._beside_samza and processor_id in {"p1", "p3", "p5"}:
            settings = replace(settings, stop_ms=_SAMZAS_STOP_MS)
        process = VirtualProcess(
            ProcessorState(processor_id, location, settings, 0),
            rate,
            self.random.randrange(10_000),
        )
        process.state = replace(process.state, heard_ms=process.clock(self.now_ms))
        process.hangs = self._hangs
        self._processes.append(process)

    def _happen(self) -> None:
        self.events += 1
        dice = self.random.random()
        if dice < 0.5 or not self._processes:
            self._pass(self.random.randrange(1, 300))
        if not self._processes or (dice > 0.995 and len(self._processes) < 6):
            self._join(f"p{self.random.randrange(6)}")
            return
        process = self.random.choice(self._processes)
        if 0.96 < dice < 0.965 and self._has_pauses and not process.is_samzas:
            process.paused_until_ms = self.now_ms + self.random.randrange(8_000)
        elif 0.965 <= dice < 0.98:
            process.cut_off_until_ms = self.now_ms + self.random.randrange(8_000)
        elif 0.98 <= dice < 0.988:
            self._crash(process)
        elif 0.988 <= dice < 0.99:
            process.is_leaving = True
        if self.random.random() < self._asks:
            request = request_of(self.random, self._tasks, self.now_ms)
            self._server.placement.requests[request.uuid] = request
        self._turn(process)
        self._judge()

    def _calm(self) -> None:
        self._has_failing_writes = self._is_paused_in_steps = self._hangs = False
        for process in self._processes:
            process.paused_until_ms, process.cut_off_until_ms, process.hangs = 0, 0, False
        ends_ms = self.now_ms + _CALM_MS
        while self.now_ms < ends_ms:
            if not self._processes:  # as a service manager does, also for one that gave up
                self._join("p0")
            self._pass(self.random.randrange(1, 300))
            for process in list(self._processes):
                self._turn(process)
            self._judge()
        owned = [task for run in self._running() for task in _actives(run)]
        if sorted(owned) != sorted(self._tasks):
            raise self._broken("no task forgotten", f"{sorted(owned)} run after {_CALM_MS} ms")
        for process in self._processes:
            count = len(list(process.active_containers()))
            if count > process.state.settings.containers:
                raise self._broken("few containers when all is calm", f"{count}")
            for hung in process.hung(self.now_ms):
                raise self._broken("no container hangs for good", hung)
        leader = self._server.view(self.now_ms).leader
        left = self._server.placement.open_ones()
        if left and leader is not None and leader.holds_standbys:
            raise self._broken("each request ends", f"{left} after {_CALM_MS} ms")

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
            self._advance_to(at_ms)
            if process in self._processes:
                self._turn(process)
        self._advance_to(end_ms)

    def _advance_to(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._server.expire(self.now_ms)
        self._ghosts = [(run, ends) for run, ends in self._ghosts if self.now_ms < ends]
        for process in self._processes:
            process.end_what_is_due(self.now_ms, by_lease=self._has_pauses)

    def _turn(self, process: VirtualProcess) -> None:
        if self.now_ms < process.paused_until_ms or process not in self._processes:
            return
        if process.left is not None:
            (before, ordered), process.left = process.left, None
            self._carry_out_all(process, before, ordered)
            return
        process.tell_of_containers(self.now_ms)
        if process.is_leaving:
            self._leave(process)
            return
        for seen, asked_ms in self._readings(process):
            view = seen
            if seen is not None and process.is_samzas:
                view = replace(seen, requests=(), responses={}, pins={}, restarts={})
            before, process.seen = process.state, view or GroupView()
            now_ms = process.clock(self.now_ms)
            process.state, ordered = rules.step(before, view, now_ms, self._grouper, asked_ms)
            self._carry_out_all(process, before, ordered)

    def _carry_out_all(
        self, process: VirtualProcess, before: ProcessorState, ordered: tuple[commands.Command, ...]
    ) -> None:
        """As the runner does: what fails is decided anew. A pause may come in between."""
        for number, command in enumerate(ordered):
            if process not in self._processes:
                return
            if self._is_paused_now(process):
                process.left = (before, ordered[number:])
                return
            fault = self.random.random() if self._has_failing_writes else 1
            if fault < 0.001:
                self._crash(process)
                return
            is_lost = fault < 0.01 and not isinstance(command, _UNFAILING)
            is_refused = self._is_fenced and self._is_gone(process, command)
            is_in_vain = is_lost and (fault >= 0.005 or isinstance(command, commands.StartWork))
            if not is_refused and not is_in_vain:
                self._carry_out(process, command)
            if is_lost or is_refused:
                process.state = before
                return

    def _is_paused_now(self, process: VirtualProcess) -> bool:
        if not self._is_paused_in_steps or process.is_samzas:
            return False
        if self.random.random() >= _PAUSED_IN_A_STEP:
            return False
        process.paused_until_ms = self.now_ms + self.random.randrange(8_000)
        return True

    def _is_gone(self, process: VirtualProcess, command: commands.Command) -> bool:
        """Its node is gone, without which it writes nothing."""
        is_write = not isinstance(command, _UNFAILING | commands.GiveUp)
        return is_write and process.state.sequence not in self._server.heard_ms

    def _readings(self, process: VirtualProcess) -> Iterator[tuple[GroupView | None, int | None]]:
        """One, and when it was asked for, when it arrives; else the next is asked for. None where nothing answers."""
        server, sequence = self._server, process.state.sequence
        if self.now_ms < process.cut_off_until_ms:
            process.reading = None
            yield None, None
            return
        if sequence is not None and sequence not in server.heard_ms:
            process.state = rules.expired(process.state)
            process.reading = None
            yield None, None
            return
        if process.reading is None:
            late_ms = self.random.randrange(_LATE_MS) if self.random.random() < 0.3 else 0
            asked_ms = process.clock(self.now_ms)
            process.reading = (self.now_ms + late_ms, asked_ms, server.view(self.now_ms))
            if sequence is not None:
                server.heard_ms[sequence] = self.now_ms
                lease = SETTINGS.session_ms - process.state.settings.stop_ms
                process.lease_ms = self.now_ms + int(lease / process.rate)
        arrives_ms, asked_ms, view = process.reading
        if self.now_ms >= arrives_ms:
            process.reading = None
            yield view, asked_ms

    def _carry_out(self, process: VirtualProcess, command: commands.Command) -> None:
        server = self._server
        if isinstance(command, commands.StopWork):
            for each in process.interrupted(command.containers, self.now_ms):
                raise self._broken("tasks that stay go on", each)
            process.stop(command.containers, self.now_ms, self.random)
        elif isinstance(command, commands.Register):
            made = server.register(process, self.now_ms)
            process.state = rules.registered(process.state, made, process.clock(self.now_ms))
        elif isinstance(command, commands.GiveUp):
            process.is_leaving = True
        elif isinstance(command, commands.StartWork):
            self._start(process, command)
        elif isinstance(command, commands.Expect):
            process.expect(command.containers, self.now_ms, self.random)
        else:
            self._write(process, command)

    def _start(self, process: VirtualProcess, command: commands.StartWork) -> None:
        if twice := process.start(command.containers, self.now_ms, self.random):
            raise self._broken("containers start once", twice)
        server, location = self._server, process.state.location
        server.placement.started_ms[process.state.processor_id] = self.now_ms
        tasks = [name for each in command.containers for name in each.tasks]
        server.placement.started_at |= dict.fromkeys(tasks, location)
        server.locality |= dict.fromkeys(tasks, location)

    def _write(self, process: VirtualProcess, command: commands.Command) -> None:
        server = self._server
        if isinstance(command, commands.ReportRunning):
            if process.is_samzas:
                return
            server.placement.report(process.state, command.running, runs=bool(process.run))
        elif isinstance(command, commands.JoinBarrier):
            barrier = server.barriers[command.version]
            participants = barrier.participants | {process.state.processor_id}
            server.barriers[command.version] = replace(barrier, participants=participants)
        elif isinstance(command, commands.Publish):
            if command.version in server.models:
                return
            if self._follows_pins and not process.is_samzas:
                for broken in server.placement.unmet(command.model, process.seen):
                    raise self._broken(broken, f"version {command.version}")
            server.models[command.version] = command.model
            server.barriers[command.version] = Barrier(BarrierState.NEW)
            if server.revision == command.revision:
                if command.version <= server.version:
                    raise self._broken("versions only grow", f"{command.version}")
                server.version, server.revision = command.version, server.revision + 1
        elif isinstance(command, commands.EndBarrier):
            barrier = server.barriers[command.version]
            if barrier.state is not BarrierState.NEW:
                return
            server.barriers[command.version] = replace(barrier, state=command.state)
            if command.state is BarrierState.DONE:
                if command.version <= server.agreed:
                    raise self._broken("agreed versions only grow", f"{command.version}")
                server.agreed = command.version
        else:
            assert isinstance(command, SetPin | SetRestart | Respond | Forget)
            for broken in server.placement.write(command, server.view(self.now_ms)):
                raise self._broken(broken, process.state.processor_id)

    def _crash(self, process: VirtualProcess) -> None:
        """The process is gone; its containers end when its warden sees that. It may come back at once."""
        self._processes.remove(process)
        for each in process.run.values():
            self._ghosts.append((each, self.now_ms + self.random.randrange(200)))
        if self.random.random() < 0.7:
            self._join(process.state.processor_id)

    def _leave(self, process: VirtualProcess) -> None:
        """It stops its work, then deletes its node, if it can; it lives by what it reads until then."""
        for _ in self._readings(process):
            pass
        process.state, ordered = rules.without_work(process.state, process.clock(self.now_ms))
        for command in ordered:
            process.stop(command.containers, self.now_ms, self.random)
        if process.run:
            return
        if (
            process.state.sequence in self._server.heard_ms
            and self.now_ms >= process.cut_off_until_ms
        ):
            self._server.end(process.state.sequence)
        self._processes.remove(process)

    def _running(self) -> Iterator[ContainerModel]:
        for process in self._processes:
            yield from process.run.values()
        yield from (run for run, _ in self._ghosts)

    def _judge(self) -> None:
        for process in self._processes:
            count = len(list(process.active_containers()))
            if count > process.state.settings.containers + 1:
                raise self._broken("few containers", f"{count} of {process.state.processor_id}")
        owned: set[str] = set()
        for run in self._running():
            for task in _actives(run):
                if task in owned:
                    raise self._broken("one owner for a task", task)
                owned.add(task)
        places = {
            (task, process.state.location)
            for process in self._processes
            for run in process.run.values()
            for task in run.tasks
        }
        for task, place in places:
            if (f"Standby-{task}-0", place) in places:
                raise self._broken("a standby is elsewhere than its active", f"{task} at {place}")

    def _broken(self, invariant: str, seen: str) -> GroupViolation:
        return GroupViolation(f"{invariant}: {seen}; seed {self.seed}, event {self.events}")


def _actives(run: ContainerModel) -> list[str]:
    return [n for n, task in run.tasks.items() if task.task_mode is TaskMode.ACTIVE]
