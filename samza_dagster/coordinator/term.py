"""One term of leadership: take over, deploy or recover, then one event after another.

Each step of the heart that changes anything is one transaction (state, responses,
localities, tombstones of taken requests); its effects leave only after the commit.
A term ends by `Fenced` (another coordinator leads: the process ends), by
`Unreachable` (the broker is away: a new term begins when it is back) or by `stop`.
Containers run on in every case, for as long as their leases last.
"""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from samza_dagster.cluster.interface import ClusterResourceManager
from samza_dagster.coordinator import durable, full_queue
from samza_dagster.coordinator.broker_fence import Fence
from samza_dagster.coordinator.callbacks import ClusterEvents, HostTold
from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.deployment import Deployment
from samza_dagster.coordinator.effects import EffectRunner, response_of
from samza_dagster.coordinator.extra_standbys import assignment_records, extra_standbys
from samza_dagster.coordinator.kafka import author
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.mail import Arrived, Ignored, Mail, Malformed
from samza_dagster.coordinator.metrics import JobMetrics, render
from samza_dagster.coordinator.ports import (
    Cleaner,
    CoordinatorLog,
    EventRecorder,
    MailSource,
    RequestSource,
)
from samza_dagster.coordinator.refusal import refusal_records
from samza_dagster.coordinator.status import Processes, status_document
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.placement import commands, events
from samza_dagster.placement.ownership import is_starting
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import JobState, PlacementAsk

LONG_COMMIT_MS = 5_000
"""A commit that took longer: what was waited for meanwhile may have come without being heard."""
LONG_ABSENCE_MS = 5_000
"""Other work that took longer: what came meanwhile is heard before anything counts as late."""
CLEAN_EVERY_MS = 3_600_000
_LOOK_AGAIN_S = 0.05
_START_AGAIN_MS = 1_000
_PROVE_AGAIN_MS = 5_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _CaughtUp:
    """Stands in the queue behind all that came while the loop was away."""


@dataclass
class Term:
    """Everything that one leader needs; made anew for every term.

    `stored` is the state as the topic holds it, `state` the one to go on with: they may
    differ in the limits, which are the present config's.
    """

    log: CoordinatorLog
    requests: RequestSource
    own_requests: MailSource
    cluster: ClusterResourceManager
    deployment: Deployment
    launcher: Launcher
    stored: JobState
    state: JobState
    leader: Leader
    leases: LeaseTerms
    clock: LeaderClock
    cleaner: Cleaner
    heed_fault_domains: bool = True
    recorder: EventRecorder | None = None
    fence: Fence | None = None
    processes: Processes = field(default_factory=Processes)
    counters: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self._items: queue.SimpleQueue[events.Event | HostTold | Mail | _CaughtUp | None] = (
            queue.SimpleQueue()  # of the two the one whose `put` a signal may interrupt
        )
        self._hosts = durable.HostRecords()
        self._looked_at_ms = 0
        self._clean_at_ms = 0
        self._start_again_ms = 0
        self._prove_again_ms = 0
        self._to_hear: _CaughtUp | None = None
        self._effects = EffectRunner(
            self.cluster,
            lambda: self.launcher.with_extras(extra_standbys(self.state.groups.values())),
            self.counters,
            on_start_failed=lambda execution_id, host, why: self._items.put(
                events.StartFailed(self.clock.now_ms(), execution_id, host, why)
            ),
            fence=self.fence,
        )

    def stop(self) -> None:
        """Ends the term after the step in hand; safe from any thread and from a signal."""
        self._items.put(None)

    def observe(self, event: events.LagObserved | events.StandbyStalled) -> None:
        """Takes what the standbys report; safe from any thread."""
        self._items.put(event)

    def fenced(self, execution_id: str) -> None:
        """Takes the brokers' word that they refuse it; safe from any thread."""
        self._items.put(events.PrincipalFenced(self.clock.now_ms(), execution_id))

    def status(self) -> dict[str, Any]:
        """The document of `GET /status`."""
        return status_document(
            self.state,
            self.processes,
            self.cluster.hosts(),
            leader_epoch=self.leader.epoch,
            counters=self.counters,
            now_ms=self.clock.now_ms(),
        )

    def metrics(self) -> bytes:
        """The page of `GET /metrics`."""
        return render(
            JobMetrics(
                self.state,
                dict(self.counters),
                leader_epoch=self.leader.epoch,
                now_ms=self.clock.now_ms(),
            )
        )

    def lead(self, last_seen_hosts: Mapping[str, str]) -> None:
        """Runs until stopped; raises `Fenced` or `Unreachable`.

        Requests that were already there are read before those that come later, so that
        none is missed; one that is read twice is known by its UUID.
        """
        if self.state.deployment_id:
            self._take(events.CoordinatorRestarted(0))
        if self.state.deployment_id != self.deployment.deployment_id:
            self._take(
                events.JobDeployed(
                    0,
                    self.deployment.deployment_id,
                    self.deployment.groups(),
                    dict(last_seen_hosts),
                    self.leases.limits,
                    self.deployment.grouping(),
                )
            )
        self.cluster.start(
            ClusterEvents(
                self._items.put,
                now_ms=self.clock.now_ms,
                processes=self.processes,
                heed_fault_domains=self.heed_fault_domains,
            )
        )
        with ExitStack() as tails:
            tails.enter_context(self.own_requests.tail(self._items.put))
            tails.enter_context(self.requests.tail(self._items.put))
            self._loop()
        self._end_in_order()

    def _loop(self) -> None:
        while True:
            try:
                item = self._items.get(timeout=self._seconds_to_next())
            except queue.Empty:
                item = events.TimePassed(0)
            if item is None:
                return
            self._heed_higher_epochs()
            self._handle(item)
            self._keep_house()

    def _handle(self, item: events.Event | HostTold | Mail | _CaughtUp) -> None:
        match item:
            case Arrived():
                self._receive(item.ask)
            case Malformed():
                self._refuse(item)
            case Ignored():
                self.counters["ignored-requests"] += 1
                log.warning("ignored a record: %s", item.why)
            case HostTold():
                # What was replaced is being stopped: nothing lives on by a new lease.
                self.cluster.admit_host(item.host)
            case _CaughtUp():
                if item is self._to_hear:
                    self._to_hear = None
            case _:
                self._take(item)

    def _keep_house(self) -> None:
        """What is due by time: the heart's deadlines, the beat of the leader, the cleaning."""
        now, due = self.clock.now_ms(), next_deadline_ms(self.state)
        looked = now - self._looked_at_ms <= _LOOK_AGAIN_S * 1000
        if due is not None and due <= now and not looked and self._to_hear is None:
            self._take(events.TimePassed(0))
        now = self.clock.now_ms()
        if self.leases.beat_is_due(now):
            self._commit_alone([self._leader_record(now)])
        if self._effects.has_unadmitted and now >= self._start_again_ms:
            with self._away():
                self._effects.start_again(lambda eid: is_starting(self.state, eid))
            self._start_again_ms = self.clock.now_ms() + _START_AGAIN_MS
        if now >= self._clean_at_ms:
            self._clean_at_ms = now + CLEAN_EVERY_MS
            self._clean(now)

    @contextmanager
    def _away(self) -> Generator[None]:
        """Around work that brokers may hold up, while others' words wait in the queue."""
        began_ms = self.clock.now_ms()
        try:
            yield
        finally:
            took_ms = self.clock.now_ms() - began_ms
            if took_ms > LONG_ABSENCE_MS:
                log.warning("the brokers held this leader up for %.1f s", took_ms / 1000)
                self._to_hear = _CaughtUp()
                self._items.put(self._to_hear)

    def _seconds_to_next(self) -> float:
        due = min(self.leases.next_beat_ms, self._clean_at_ms)
        deadline = next_deadline_ms(self.state)
        if deadline is not None:
            due = min(due, deadline)
        if self._effects.has_unadmitted:
            due = min(due, self._start_again_ms)
        # A deadline that lies behind is looked at again soon, not in a busy loop.
        return max(_LOOK_AGAIN_S, (due - self.clock.now_ms()) / 1000)

    def _heed_higher_epochs(self) -> None:
        """An agent that follows a higher epoch has heard another leader, or is wrong.

        The brokers know which: they refuse the beat of a leader that was replaced. Where they
        take it there is no other, and that host stays refused; its word ends no leader.
        """
        told = self.cluster.higher_epochs()
        now = self.clock.now_ms()
        if not told:
            return
        self.counters["refused-epochs"] += len(told)
        if now < self._prove_again_ms:
            return
        self._prove_again_ms = now + _PROVE_AGAIN_MS
        self._commit_alone([self._leader_record(now)])
        for host, epoch in sorted(told.items()):
            log.warning(
                "the agent of %s is refused: its highest_epoch is %d, and the brokers know of no leader "
                "after this one of epoch %d. End that agent and its containers, and start it with an "
                "empty --directory",
                host,
                epoch,
                self.leader.epoch,
            )

    def _take(
        self,
        event: events.Event,
        also: tuple[Sequence[durable.Record], Sequence[StreamRecord]] = ((), ()),
    ) -> None:
        """One step: decide, commit, then act. The event happens now, by the leader's clock.

        `also` are records for state topic and coordinator stream in the same commit.
        """
        now = self.clock.now_ms()
        if isinstance(event, events.TimePassed):
            self._looked_at_ms = now
        event = replace(event, at_ms=now)
        result = step(self.state, event)
        touched = durable.touched_groups(self.stored, result.state)
        records = durable.changed(
            self.stored, result.state, leader_epoch=self.leader.epoch, touched=touched
        )
        records += [*also[0], *self._hosts.changed(result.state, self.cluster.hosts())]
        projections = [c for c in result.commands if isinstance(c, commands.Projection)]
        assignments = assignment_records(
            self.deployment.job_model,
            extra_standbys(g for n in touched if (g := self.state.groups.get(n)) is not None),
            extra_standbys(g for n in touched if (g := result.state.groups.get(n)) is not None),
            author(now),
        )
        stream_records = [*assignments, *also[1]]
        if self.recorder is not None:
            # Before the commit: no step is in the records that the log lacks, wherever this dies.
            self.recorder.record(event, result.state)
        took_ms = 0
        if records or projections or stream_records:
            took_ms = self._commit(records, projections, stream_records)
        self.stored = self.state = result.state
        for command in result.commands:
            if isinstance(command, commands.WriteResponse):
                answer = response_of(command)
                log.info(
                    "%s %s %s: %s",
                    answer.uuid,
                    answer.processor_id,
                    answer.status_code,
                    answer.response_message,
                )
        self._act(c for c in result.commands if not isinstance(c, commands.Projection))
        self._go_on_after(took_ms)

    def _act(self, effects: Iterable[commands.Effect]) -> None:
        waited = self._effects.has_unadmitted
        with self._away():
            for effect in effects:
                self._effects.run(effect)
        if self._effects.has_unadmitted and not waited:
            self._start_again_ms = self.clock.now_ms() + _START_AGAIN_MS

    def _go_on_after(self, took_ms: int) -> None:
        """After a long commit: every deadline counts anew, and hosts say again what they have.

        The same as after a restart, since as little was heard meanwhile.
        """
        if took_ms <= LONG_COMMIT_MS:
            return
        log.warning("a commit took %.1f s: deadlines count anew", took_ms / 1000)
        self._take(events.CoordinatorRestarted(0))
        self.cluster.report_again()

    def _commit_alone(
        self, records: Sequence[durable.Record], stream_records: Sequence[StreamRecord] = ()
    ) -> None:
        """A commit that is no step of the heart."""
        self._go_on_after(self._commit(records, stream_records=stream_records))

    def _commit(
        self,
        records: Sequence[durable.Record],
        projections: Sequence[commands.Projection] = (),
        stream_records: Sequence[StreamRecord] = (),
    ) -> int:
        """Returns how long it took, in ms."""
        sent_ms = self.clock.now_ms()
        self.log.commit(records, projections, stream_records)
        self.leases.committed(sent_ms)
        return self.clock.now_ms() - sent_ms

    def _leader_record(self, now_ms: int, *, ended: bool = False) -> durable.Record:
        leader = replace(self.leader, lease_ms=self.leases.longest_ms(now_ms), ended=ended)
        told = {
            "since_ms": self.leases.began_ms,
            "beat_ms": now_ms,
            "counters": dict(self.counters),
        }
        return (durable.LEADER, {**leader.to_json(), **told})

    def _end_in_order(self) -> None:
        """Tells whoever waits that nobody leads."""
        try:
            self._commit([self._leader_record(self.clock.now_ms(), ended=True)])
        except Unreachable as error:
            log.warning("the end of this term isn't written: %s", error)

    def _receive(self, ask: PlacementAsk) -> None:
        beyond = full_queue.refusal(self.state, ask)
        if beyond is None:
            self._take(events.RequestArrived(0, ask, self._no_start_because()))
            return
        log.warning("%s is refused: %s", ask.uuid, beyond.why)
        self._answer(beyond)

    def _refuse(self, mail: Malformed) -> None:
        """Answers what the heart never sees, and deletes it. A known UUID's answer stands."""
        state = self.state
        known = mail.uuid in state.uuids or mail.uuid in state.refused
        foreign = mail.deployment_id not in ("", state.deployment_id)
        if known or foreign or mail.uuid in state.index.by_id:
            self._commit_alone(*refusal_records(mail, None))
            return
        self.counters["malformed-requests"] += 1
        log.warning("%s is a bad request: %s", mail.uuid, mail.why)
        self._answer(mail)

    def _answer(self, mail: Malformed) -> None:
        """The answer, the deletion and the memory of both in one commit."""
        answer = mail.response(self.clock.now_ms())
        self._take(events.RequestRefused(0, mail.uuid), refusal_records(mail, answer))

    def _clean(self, now_ms: int) -> None:
        try:
            with self._away():
                records, stream_records = self.cleaner.removals(self.state, now_ms)
        except (InvalidInput, Unreachable) as error:
            log.warning("finished placement messages stay for now: %s", error)
            return
        if records or stream_records:
            log.info(
                "%d finished placement messages are removed", len(records) + len(stream_records)
            )
            self._commit_alone(records, stream_records)

    def _no_start_because(self) -> str:
        try:
            with self._away():
                return self.requests.no_start_because()
        except Unreachable as error:
            return f"the coordinator stream can't be read: {error.seen}; ask again"
