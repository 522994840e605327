"""A job's world around the heart: durable state, a stream of requests, hosts, and faults.

A crash takes the coordinator between any two commands: the step is durable, its
projections are written, the effects behind the crash are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import Action, JobState, Limits, Phase, PlacementAsk, Stage
from tests.unit.placement.virtual_hosts import (
    Entry,
    Fault,
    Life,
    Report,
    Requests,
    VirtualHost,
)

C = TypeVar("C")
Move = Callable[[], None]
TERMINAL = ("SUCCEEDED", "FAILED", "BAD_REQUEST")


@dataclass
class World:
    """Everything there is. Every step of the heart is checked against the invariants."""

    hosts: dict[str, VirtualHost]
    resources: Requests
    state: JobState
    now_ms: int = 1_000
    requests: dict[str, PlacementAsk] = field(default_factory=dict)
    responses: list[cmd.WriteResponse] = field(default_factory=list)
    locality: dict[str, str] = field(default_factory=dict)
    emitted: list[cmd.Command] = field(default_factory=list)

    @classmethod
    def of(cls, names: Iterable[str], *, slots: int = 4, job: str = "demo") -> World:
        hosts = {name: VirtualHost(name) for name in names}
        return cls(hosts, Requests(slots, hosts), JobState(job))

    # -- the coordinator ---------------------------------------------------------------

    def handle(self, event: ev.Event, *, crash_after: int | None = None) -> None:
        """One committed step; with `crash_after` only so many effects leave before a crash."""
        self._end_leases()
        before = self.state
        taken = step(before, event)
        self.state = taken.state
        self.emitted.extend(taken.commands)
        self._check_stops(before, taken.commands)
        left = crash_after
        for command in taken.commands:
            if isinstance(command, cmd.Projection):
                self._project(command)
        for command in taken.commands:
            if not isinstance(command, cmd.Projection):
                if left == 0:
                    break
                self._carry_out(command)
                left = None if left is None else left - 1
        self.check()
        if isinstance(event, ev.TimePassed):
            due = next_deadline_ms(self.state)
            assert due is None or due > self.state.now_ms, "a deadline that time doesn't clear"
        if crash_after is not None:
            self.crash()

    def _end_leases(self) -> None:
        """The warden of a silent host ends what has no lease any more."""
        for host in self.hosts.values():
            if (
                not host.registered
                and self.now_ms - host.silent_since_ms >= self.state.limits.lease_ms
            ):
                for entry in tuple(host.live()):
                    host.die(self.now_ms, entry)

    def crash(self) -> None:
        """The coordinator's process ends and another takes over; hosts have yet to register."""
        self.resources.asked.clear()
        for host in self.hosts.values():
            host.registered = False
            host.silent_since_ms = self.now_ms
            host.commands.clear()
        self.handle(ev.CoordinatorRestarted(self.now_ms))
        for ask in tuple(self.requests.values()):
            self.handle(ev.RequestArrived(self.now_ms, ask))

    def deploy(
        self,
        groups: Mapping[str, tuple[str, ...]],
        *,
        deployment_id: str = "run-1",
        last_seen: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.handle(
            ev.JobDeployed(self.now_ms, deployment_id, groups, last_seen or {}, limits or Limits())
        )

    def submit(self, ask: PlacementAsk) -> None:
        """A client writes a request, and the coordinator reads it."""
        self.requests[ask.uuid] = ask
        self.handle(ev.RequestArrived(self.now_ms, ask))

    def register(self, name: str) -> None:
        self.handle(self.hosts[name].register(self.now_ms))

    def deliver(
        self, report: Report, *, again: bool = False, crash_after: int | None = None
    ) -> None:
        """One pending report reaches the heart; `again` leaves it to come a second time."""
        if not again:
            for box in self._boxes():
                if report in box:
                    box.remove(report)
                    break
        self.handle(report, crash_after=crash_after)

    def pending(self) -> list[Report]:
        return [report for box in self._boxes() for report in box]

    def wake(self) -> bool:
        """Time goes on to the heart's next deadline; False when it waits for none."""
        due = next_deadline_ms(self.state)
        if due is None:
            return False
        self.now_ms = max(self.now_ms, due)
        self.handle(ev.TimePassed(self.now_ms))
        return True

    # -- the fair world ----------------------------------------------------------------

    def settle(self, limit: int = 3_000) -> None:
        """No more faults: everybody does what they owe until nothing is left to do."""
        for host in self.hosts.values():
            host.up, host.fault = True, None
            if not host.registered:
                self.register(host.name)
        for _ in range(limit):
            moves = self.moves()
            if moves:
                moves[0]()
            elif not self.wake():
                return
        raise AssertionError(f"not quiet after {limit} moves: {self.state}")

    def settle_with(self, lost: set[str], limit: int = 3_000) -> None:
        """As `settle`, but these hosts stay silent."""
        for _ in range(limit):
            moves = self.moves()
            if moves:
                moves[0]()
            elif not self.wake():
                return
            if all(
                processor.phase is Phase.RUNNING
                for group in self.state.groups.values()
                for processor in group.processors.values()
            ):
                assert not any(self.hosts[name].up for name in lost)
                return
        raise AssertionError(f"not quiet after {limit} moves: {self.state}")

    def until(self, condition: Callable[[], bool], limit: int = 500) -> None:
        """Fair moves, then time, until `condition` holds."""
        for _ in range(limit):
            if condition():
                return
            moves = self.moves()
            if moves:
                moves[0]()
            elif not self.wake():
                break
        raise AssertionError(f"never came: {self.state}")

    def run(self, moves: int, choose: Callable[[list[Move]], Move]) -> None:
        """Lets some of the things happen that are due, in the order that `choose` likes."""
        for _ in range(moves):
            possible = self.moves()
            if not possible:
                return
            choose(possible)()
            self.check()

    def moves(self) -> list[Move]:
        """Each thing that may happen next: reports arrive, hosts obey, processes go on."""
        moves: list[Move] = [partial(self.deliver, report) for report in self.pending()]
        for host in self.hosts.values():
            if not host.up:
                continue
            if host.commands and host.registered:
                moves.append(lambda host=host: host.obey(self.now_ms))
            for entry in host.live():
                if entry.stopping and host.fault is Fault.STUBBORN:
                    moves.append(partial(host.refuse_to_die, self.now_ms, entry))
                elif entry.stopping:
                    moves.append(partial(host.die, self.now_ms, entry))
                elif entry.life is Life.LAUNCHED and host.fault is not Fault.NO_CHECK_IN:
                    moves.append(partial(host.check_in, self.now_ms, entry))
        moves += [partial(self._answer, request_id) for request_id in self.resources.asked]
        return moves

    def _answer(self, request_id: str) -> None:
        request = self.resources.asked[request_id]
        candidates = self.resources.candidates(request)
        if candidates:
            self.resources.grant(self.now_ms, request_id, candidates[0])
        else:
            self.now_ms += request.expires_in_ms
            self.resources.expire(self.now_ms, request_id)

    # -- what an outsider sees ---------------------------------------------------------

    def phases(self) -> dict[str, Phase]:
        return {
            pid: processor.phase
            for _, group in sorted(self.state.groups.items())
            for pid, processor in group.processors.items()
        }

    def entry(self, processor_id: str) -> Entry:
        """The books' line of the processor's live process."""
        return next(entry for _, entry in self._live() if entry.processor_id == processor_id)

    def action(self, group_id: str) -> Action | None:
        return self.state.groups[group_id].action

    def stage(self, group_id: str) -> Stage | None:
        action = self.action(group_id)
        return action.stage if action is not None else None

    def sent(self, kind: type[C]) -> list[C]:
        """The commands of one kind so far, in order."""
        return [command for command in self.emitted if isinstance(command, kind)]

    def where(self, processor_id: str) -> str | None:
        """The host of the processor's live process."""
        return next((host for host, e in self._live() if e.processor_id == processor_id), None)

    def told(self, uuid: str) -> list[tuple[str, str]]:
        """(status, message) of every response to a request, repetitions left out."""
        records = dict.fromkeys(r for r in self.responses if r.uuid == uuid)
        return [(record.status, record.message) for record in records]

    # -- invariants --------------------------------------------------------------------

    def check(self) -> None:
        seen: dict[tuple[str, str], str] = {}
        processors: dict[str, str] = {}
        for host, entry in self._live():
            place = (host, naming.group_of(entry.processor_id))
            other = seen.get(place)
            assert other is None, f"{entry.execution_id} and {other} share {host}"
            seen[place] = entry.execution_id
            twin = processors.get(entry.processor_id)
            assert twin is None, f"{entry.execution_id} and {twin} are both alive"
            processors[entry.processor_id] = entry.execution_id
        ended: dict[str, cmd.WriteResponse] = {}
        for response in self.responses:
            last = ended.get(response.uuid)
            assert last is None or last == response, f"{response} after {last}"
            if response.status in TERMINAL:
                ended[response.uuid] = response
        held = (Stage.RESERVING, Stage.STOPPING, Stage.STARTING)
        in_flight = sum(self.stage(group_id) in held for group_id in self.state.groups)
        assert in_flight <= self.state.limits.max_concurrent_actions

    def _check_stops(self, before: JobState, commands: tuple[cmd.Command, ...]) -> None:
        """A running container is stopped by an action that holds its destination, or by force."""
        running = {
            processor.incarnation.execution_id: (group.group_id, pid)
            for group in before.groups.values()
            for pid, processor in group.processors.items()
            if processor.phase is Phase.RUNNING and processor.incarnation
        }
        for command in commands:
            if not isinstance(command, cmd.StopContainer) or command.execution_id not in running:
                continue
            group_id, processor_id = running[command.execution_id]
            group = self.state.groups[group_id]
            processor = group.processors[processor_id]
            current = processor.incarnation
            redeployed = before.deployment_id != self.state.deployment_id
            if redeployed or current is None or current.execution_id != command.execution_id:
                continue
            if group.failover is not None and group.failover.standby_id == processor_id:
                continue
            action = group.action
            assert action is not None, f"{command} without an action"
            assert action.ask.processor_id == processor_id
            assert action.stage is Stage.STOPPING
            if action.ask.destination_host != naming.FORCE_RESTART_LAST_SEEN:
                assert action.reservation is not None
                assert action.reservation.allocated_host is not None, f"{command} not reserved"

    def _check_success(self, response: cmd.WriteResponse) -> None:
        """SUCCEEDED is true: the container did check in where the text says."""
        group = self.state.groups[naming.group_of(response.processor_id)]
        incarnation = group.processors[response.processor_id].incarnation
        assert incarnation is not None
        assert response.message.endswith(f" {incarnation.host}")
        assert incarnation.execution_id in self.hosts[incarnation.host].ever_checked_in

    def _live(self) -> list[tuple[str, Entry]]:
        return [(host.name, entry) for host in self.hosts.values() for entry in host.live()]

    def _boxes(self) -> list[list[Report]]:
        return [self.resources.reports, *(h.reports for h in self.hosts.values() if h.up)]

    def _project(self, command: cmd.Projection) -> None:
        match command:
            case cmd.WriteResponse():
                if command.status == "SUCCEEDED":
                    self._check_success(command)
                self.responses.append(command)
            case cmd.DeleteRequest(uuid):
                self.requests.pop(uuid, None)
            case cmd.WriteLocality(processor_id, host):
                self.locality[processor_id] = host
            case cmd.DeleteLocality(processor_id):
                self.locality.pop(processor_id, None)

    def _carry_out(self, command: cmd.Effect) -> None:
        match command:
            case cmd.RequestResource():
                self.resources.ask(self.now_ms, command)
            case cmd.ReleaseResource():
                self.resources.release(command)
            case cmd.StartContainer(host=host) if not self.hosts[host].registered:
                pass  # said again when it registers, if it is still wanted then
            case cmd.StartContainer(host=host) | cmd.StopContainer(host=host):
                self.hosts[host].commands.append(command)
            case cmd.ForgetContainer(host=host):
                self.hosts[host].commands.append(command)
            case cmd.CountMetric():
                pass
