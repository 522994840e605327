"""The runner of one processor: ZooKeeper session, clock and work around `processor.step`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Protocol

from samza_dagster.agent.lease import Now, read_clocks
from samza_dagster.agent.logs import about
from samza_dagster.errors import ActionFailed, Fenced, Unreachable
from samza_dagster.metadata.zookeeper import ZooKeeper
from samza_dagster.standalone import commands
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import BarrierState, GroupView, LocalStores, Pin, Running
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.local_stores import barred_stores, unused_stores
from samza_dagster.standalone.metrics import Seen
from samza_dagster.standalone.processor import Grouper, ProcessorState, Settings
from samza_dagster.standalone.requests import Forget, Respond, SetPin, SetRestart
from samza_dagster.standalone.work import ProcessorWork
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup

_READINGS_A_SESSION = 6
"""So often within a session's time the group is read though nothing was heard of it."""
_SOONEST_MS = 20
"""Where ZooKeeper is away what is due stays due."""
_LEASE_OF_SESSION = 0.95
"""A warden ends what outlives this part of the session's time, whatever became of its processor."""
_log = logging.getLogger(__name__)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class ContainerControl(Protocol):
    """Control of a processor's containers."""

    def renew(self, asked: Now, lease_s: float) -> None:
        """Let them live for `lease_s` from `asked`: without this call they end by themselves."""

    def expect(self, command: commands.Expect, there: Callable[[str], None]) -> None:
        """Prepare these possible starts and no others.

        Call `there` with the id of each that is ready.
        """

    def start(self, command: commands.StartWork, at_work: Callable[[str], None]) -> None:
        """Start containers without waiting.

        Call `at_work` with the id of each that processes its tasks.
        """

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None:
        """Stop containers without waiting; call `stopped` with the id of each that has ended."""


class Fence(Protocol):
    """The fence that shuts unregistered processors out at the brokers.

    Each registration has a name.
    """

    def admit(self, registration: str) -> None:
        """Let the containers of a registration in. Raises `Unreachable`."""

    def shut_out_others(self, version: int, registered: Callable[[], Set[str]]) -> None:
        """Return once no other principal can write, once for a version.

        Raises `Unreachable` before.
        """


class ProcessorRunner:
    """A processor of a group, until `leave`.

    `stores_of` finds its stores, by where each task ran last.

    `grouper` makes the JobModel when this one leads. The session's own time-out is
    `settings.session_ms`. With a `fence` a version is agreed on once the brokers refuse every
    processor that has left. `refused` describes the inputs that have no tasks in the newest model.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        paths: GroupPaths,
        *,
        processor_id: str,
        location: str,
        settings: Settings,
        grouper: Grouper,
        containers: ContainerControl,
        stores_of: Callable[[Mapping[str, str]], LocalStores] = lambda _: LocalStores(),
        fence: Fence | None = None,
        refused: Callable[[GroupView], str] = lambda _: "",
        now_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        self._group = ZooKeeperGroup(zookeeper, paths, self._wake)
        self._grouper = grouper
        self._containers = containers
        self._stores_of = stores_of
        self._stores = LocalStores()
        self._fence = fence
        self._refused = refused
        self._now_ms = now_ms
        self._state = ProcessorState(processor_id, location, settings, now_ms())
        self._woken = threading.Event()
        self._facts: list[Callable[[ProcessorState], ProcessorState]] = []
        self._lock = threading.Lock()
        self._is_leaving = False
        self._failure = ""
        self._reading: GroupView | None = None
        self._behind_since_ms: int | None = None
        self._lost_sessions = self._registrations = 0
        zookeeper.add_listener(self._on_session)

    @property
    def state(self) -> ProcessorState:
        """Return the state after its newest step."""
        return self._state

    def seen(self) -> Seen:
        """Return what it sees now."""
        state, now_ms = self._state, self._now_ms()
        is_fresh = now_ms - state.heard_ms < state.settings.session_ms
        behind_ms = now_ms - (self._behind_since_ms or now_ms)
        group = self._reading if is_fresh else None
        return Seen(state, group, now_ms, behind_ms, self._lost_sessions, self._registrations)

    def run(self) -> None:
        """Run until `leave` was called and its work has ended.

        Raises `ActionFailed` when it has given up: its id is another's, its node was deleted, or a
        container hasn't checked in in time.
        """
        self.begin()
        while self.turn():
            self._woken.wait(self.wait_s)
        if self._failure:
            raise ActionFailed(f"run the processor {self._state.processor_id}", seen=self._failure)

    def begin(self) -> None:
        """Make the group's missing nodes, and find the local stores."""
        self._group.prepare()
        self._find_stores()

    def turn(self) -> bool:
        """Read the group once and carry out a step; return False once it has left."""
        self._woken.clear()
        if not self._is_leaving:
            self._step()
            return True
        self._read()  # its containers live by that until they have ended
        self._take_facts()
        return not self._has_left()

    def start_anew(self) -> None:
        """Restart all work after a part of it has ended by itself."""
        self._note(self._end_work)

    def plan_anew(self) -> None:
        """Have a leader call its grouper again, since the job's inputs have changed."""
        self._note(lambda state: rules.inputs_changed(state, self._now_ms()))

    def _end_work(self, state: ProcessorState) -> ProcessorState:
        state, ordered = rules.without_work(state, self._now_ms())
        for command in ordered:
            self._stop(command)
        return state

    def _stop(self, command: commands.StopWork) -> None:
        self._containers.stop(command.containers, self._note_stopped)

    def _note_stopped(self, container: str) -> None:
        self._note_work(lambda work, _: work.ended(frozenset({container})))

    def _note_there(self, container: str) -> None:
        self._note_work(lambda work, now_ms: work.now_there(container, now_ms))

    def _note_at_work(self, container: str) -> None:
        self._note_work(lambda work, now_ms: work.now_at_work(container, now_ms))

    def _note_work(self, became: Callable[[ProcessorWork, int], ProcessorWork]) -> None:
        now_ms = self._now_ms()
        self._note(lambda state: replace(state, work=became(state.work, now_ms)))

    def _find_stores(self) -> None:
        own, found = self._state.processor_id, self._stores_of(self._group.locality())
        for line in (*unused_stores(own, found.unused), *barred_stores(own, found.barred)):
            _log.warning("%s", line)
        self._stores = found

    def leave(self) -> None:
        """Leave as planned: stop the work, then delete the node, so that no member waits for the session."""
        self._is_leaving = True
        self._wake()

    def _step(self) -> None:
        asked_ms, group = self._now_ms(), self._read()
        self._take_facts()  # those too that came meanwhile: that the session is over, before its node is missed
        if group is not None and group.is_whole:
            self._state = replace(self._state, refused=self._refused(group))
        if group is not None:
            self._reading = None if self._state.sequence is None else group
            numbers = (int(m.sequence) + 1 for m in group.members if m.sequence.isdigit())
            self._registrations = max(self._registrations, *numbers, 0)
            is_behind = group.agreed > (self._state.running or Running(0)).version
            self._behind_since_ms = (self._behind_since_ms or asked_ms) if is_behind else None
        before = self._state
        self._state, ordered = rules.step(before, group, self._now_ms(), self._grouper, asked_ms)
        try:
            for command in ordered:
                self._carry_out(command)
        except (Unreachable, Fenced) as error:  # all may be repeated, so it begins again there
            _log.warning("%s", error)
            self._state = before
            return
        if ordered:
            self._wake()

    def _read(self) -> GroupView | None:
        asked = read_clocks()
        try:
            is_whole = rules.decides(self._state, self._now_ms())
            group = self._group.view(self._state.sequence, is_whole=is_whole)
        except Unreachable as error:
            _log.warning("%s", error)
            return None
        self._containers.renew(asked, self._state.settings.session_ms / 1_000 * _LEASE_OF_SESSION)
        return group

    def _carry_out(self, command: commands.Command) -> None:
        state = self._state
        with about(request=_request_of(command)):
            _log.info("%s: %s", state.processor_id, type(command).__name__)
        match command:
            case commands.Register():
                sequence = self._group.register(state.processor_id, state.location, self._stores)
                if self._fence is not None:  # before it expects a container, which logs in as this
                    self._fence.admit(self._group.registration(sequence))
                self._state = rules.registered(state, sequence, self._now_ms())
            case commands.StopWork():
                self._stop(command)
            case commands.Expect():
                self._containers.expect(command, self._note_there)
            case commands.StartWork():
                self._group.write_locality(command, state.location)
                self._containers.start(command, self._note_at_work)
            case commands.JoinBarrier():
                self._group.join(command, state.processor_id)
            case commands.ReportRunning():
                self._report(command)
            case commands.Publish():
                self._group.publish(command)
            case commands.EndBarrier():
                if self._fence is not None and command.state is BarrierState.DONE:
                    self._fence.shut_out_others(command.version, self._group.registered)
                self._group.end_barrier(command)
            case commands.GiveUp():
                self._failure = command.why
                self.leave()
            case SetPin() | SetRestart() | Respond() | Forget():
                self._group.place(command)

    def _report(self, command: commands.ReportRunning) -> None:
        state, running = self._state, command.running
        if running.trouble:
            _log.warning("%s", running.trouble)
        if running.silent_ms:
            _log.info("tasks that stay were silent for %.1f s", running.silent_ms / 1_000)
        assert state.sequence is not None  # it has joined a barrier
        self._group.report(command, state.sequence)

    def _has_left(self) -> bool:
        state = self._state
        if state.work.running:
            self._state = self._end_work(state)
            return False
        if state.sequence is not None:
            try:
                self._group.leave(state.sequence)
            except Unreachable as error:  # its session ends by itself
                _log.warning("%s", error)
        return True

    def _on_session(self, session: str) -> None:
        if session == "LOST":
            self._lost_sessions += 1
            self._note(rules.expired)
        else:
            self._wake()

    def _note(self, fact: Callable[[ProcessorState], ProcessorState]) -> None:
        with self._lock:
            self._facts.append(fact)
        self._wake()

    def _take_facts(self) -> None:
        with self._lock:
            facts, self._facts = self._facts, []
        for fact in facts:
            self._state = fact(self._state)

    def _wake(self) -> None:
        self._woken.set()

    @property
    def wait_s(self) -> float:
        """Return the seconds until its next turn, unless an event arrives before."""
        due_ms = self._state.settings.session_ms / _READINGS_A_SESSION
        wake_ms = rules.wake_ms(self._state)
        if wake_ms is not None:
            due_ms = min(due_ms, max(_SOONEST_MS, wake_ms - self._now_ms()))
        return due_ms / 1_000


def _request_of(command: commands.Command) -> str | None:
    """Return the request for the logs; None for a command of no request, or of several."""
    match command:
        case Respond(response):
            return response.uuid
        case SetPin(pin=Pin(uuid=str(uuid))) | SetRestart(uuid=uuid) | Forget(uuid):
            return uuid
        case _:
            return None
