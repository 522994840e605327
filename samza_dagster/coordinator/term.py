"""A term of leadership: take over, deploy or recover, then one event after another.

A term ends by `Fenced` (another coordinator leads: the process ends), by
`Unreachable` (the broker is away: a new term begins when it is back) or by `stop`.
Containers run on in every case, for as long as their leases last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.agent.logs import about
from samza_dagster.coordinator.callbacks import ClusterEvents, HostTold, Rival
from samza_dagster.coordinator.cleaning import FinishedMessages
from samza_dagster.coordinator.clock import wall_clock_ms
from samza_dagster.coordinator.first_step import first_events
from samza_dagster.coordinator.inbox import CaughtUp, Incoming
from samza_dagster.coordinator.kafka import KafkaOwnRequests, KafkaRequests
from samza_dagster.coordinator.mail import Arrived, Ignored, Malformed
from samza_dagster.coordinator.metrics import JobMetrics, render
from samza_dagster.coordinator.refusal import refusal, refusal_records
from samza_dagster.coordinator.status import Processes, status_document
from samza_dagster.coordinator.steps import Steps
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.model.naming import group_of
from samza_dagster.placement import events
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import PlacementAsk

CLEAN_EVERY_MS = 3_600_000
_LOOK_AGAIN_S = 0.05
_PROVE_AGAIN_MS = 5_000
log = logging.getLogger(__name__)


@dataclass
class Term:
    """The loop of one leader over events and deadlines; made anew for every term."""

    steps: Steps
    requests: KafkaRequests
    own_requests: KafkaOwnRequests
    cleaner: FinishedMessages
    heed_fault_domains: bool = True
    processes: Processes = field(default_factory=Processes)
    counting_since_ms: int = field(default_factory=wall_clock_ms)
    observes_lags: bool = False

    def __post_init__(self) -> None:
        self._inbox = self.steps.inbox
        self._cluster = self.steps.cluster
        self._leases = self.steps.leases
        self._clock = self.steps.clock
        self._counters = self.steps.counters
        self._clean_at_ms = 0
        self._prove_again_ms = 0

    def stop(self) -> None:
        """End the term after the current step; safe from any thread and from a signal."""
        self._inbox.end()

    def observe(self, event: events.LagObserved | events.StandbyStalled | Ignored) -> None:
        """Queue an observation of standbys' lag; safe from any thread."""
        self._inbox.put(event)

    def fenced(self, execution_id: str) -> None:
        """Queue the brokers' confirmation that they refuse it; safe from any thread."""
        self._inbox.put(events.PrincipalFenced(self._clock.now_ms(), execution_id))

    def status(self) -> dict[str, Any]:
        """Return the document of `GET /status`."""
        return status_document(
            self.steps.state,
            self.processes,
            self._cluster.hosts(),
            leader_epoch=self.steps.leader.epoch,
            counters=self._counters,
            now_ms=self._clock.now_ms(),
        )

    def metrics(self) -> bytes:
        """Return the page of `GET /metrics`."""
        return render(
            JobMetrics(
                self.steps.state,
                dict(self._counters),
                leader_epoch=self.steps.leader.epoch,
                now_ms=self._clock.now_ms(),
                counting_since_ms=self.counting_since_ms,
                observes_lags=self.observes_lags,
            )
        )

    def lead(self, last_seen_hosts: Mapping[str, str]) -> None:
        """Run the term until stopped; raises `Fenced` or `Unreachable`.

        Present requests are read before later ones, so that none is missed; the UUID identifies a
        request that is read twice.
        """
        for event in first_events(
            self.steps.deployment, self.steps.state, last_seen_hosts, self._leases.limits
        ):
            self.steps.take(event)
        self._cluster.start(
            ClusterEvents(
                self._inbox.put,
                now_ms=self._clock.now_ms,
                processes=self.processes,
                heed_fault_domains=self.heed_fault_domains,
            )
        )
        with ExitStack() as tails:
            # In this order: a request about another one follows it, and is in our own topic.
            tails.enter_context(self.requests.tail(self._inbox.put))
            tails.enter_context(self.own_requests.tail(self._inbox.put))
            self._loop()
        self.steps.end_in_order()

    def _loop(self) -> None:
        while True:
            item = self._inbox.next(within_s=self._seconds_to_next())
            if item is None:
                return
            self._heed_higher_epochs()
            with about(**ids_of(item)):
                self._handle(item)
            self._keep_house()

    def _handle(self, item: Incoming | CaughtUp) -> None:
        match item:
            case Arrived():
                self._receive(item.ask)
            case Malformed():
                self._refuse(item)
            case Ignored():
                self._counters[item.counted_as] += item.times
                if item.why:
                    log.warning("ignored a record: %s", item.why)
            case HostTold():
                # Replaced incarnations are being stopped: none lives on by a new lease.
                self._cluster.admit_host(item.host)
            case Rival():
                # The brokers refuse the beat of a replaced leader.
                log.warning("proving that this one leads: %s", item.why)
                self.steps.beat(self._clock.now_ms())
            case CaughtUp():
                self._inbox.caught_up(item)
            case _:
                self.steps.take(item)

    def _keep_house(self) -> None:
        """Do what is due by time: the reducer's deadlines, the beat of the leader, the cleaning."""
        self._count_anew()
        now, due = self._clock.now_ms(), next_deadline_ms(self.steps.state)
        looked = now - self.steps.looked_at_ms <= _LOOK_AGAIN_S * 1000
        if due is not None and due <= now and not looked and not self._inbox.is_behind:
            self.steps.take(events.TimePassed(0))
        now = self._clock.now_ms()
        if now >= self.steps.next_beat_ms:
            self.steps.beat(now)
        again = self.steps.start_again_ms
        if again is not None and now >= again:
            self.steps.start_again()
        if now >= self._clean_at_ms:
            self._clean_at_ms = now + CLEAN_EVERY_MS
            self._clean(now)
        self._count_anew()

    def _count_anew(self) -> None:
        if self.steps.was_held_up and not self._inbox.is_behind:
            self.steps.count_anew()

    def _seconds_to_next(self) -> float:
        due = min(self.steps.next_beat_ms, self._clean_at_ms)
        deadline = next_deadline_ms(self.steps.state)
        if deadline is not None:
            due = min(due, deadline)
        again = self.steps.start_again_ms
        if again is not None:
            due = min(due, again)
        # Look at a past deadline again soon, not in a busy loop.
        return max(_LOOK_AGAIN_S, (due - self._clock.now_ms()) / 1000)

    def _heed_higher_epochs(self) -> None:
        """Commit a beat when an agent reports a higher epoch: it follows another leader, or is wrong.

        The brokers refuse the beat of a replaced leader. If they accept it, no other leader
        exists: keep refusing that host.
        """
        epochs = self._cluster.higher_epochs()
        now = self._clock.now_ms()
        if not epochs:
            return
        self._counters["refused-epochs"] += len(epochs)
        if now < self._prove_again_ms:
            return
        self._prove_again_ms = now + _PROVE_AGAIN_MS
        self.steps.beat(now)
        for host, epoch in sorted(epochs.items()):
            log.warning(
                "the agent of %s is refused: its highest_epoch is %d, and the brokers know of no leader "
                "after this one of epoch %d. End that agent and its containers, and start it with an "
                "empty --directory",
                host,
                epoch,
                self.steps.leader.epoch,
            )

    def _receive(self, ask: PlacementAsk) -> None:
        beyond = refusal(self.steps.state, ask)
        if beyond is None:
            self.steps.take(events.RequestArrived(0, ask, self._no_start_because()))
            return
        log.warning("%s is refused: %s", ask.uuid, beyond.why)
        self._answer(beyond)

    def _refuse(self, mail: Malformed) -> None:
        """Answer and delete a request that the reducer never sees.

        A known UUID keeps its answer.
        """
        state = self.steps.state
        known = mail.uuid in state.uuids or mail.uuid in state.refused
        foreign = mail.deployment_id not in ("", state.deployment_id)
        if known or foreign or mail.uuid in state.index.by_id:
            self.steps.commit_alone(*refusal_records(mail, None))
            return
        self._counters["malformed-requests"] += 1
        log.warning("%s is a bad request: %s", mail.uuid, mail.why)
        self._answer(mail)

    def _answer(self, mail: Malformed) -> None:
        """Commit the answer, the deletion and the memory of both at once."""
        answer = mail.response(self._clock.now_ms())
        self.steps.take(events.RequestRefused(0, mail.uuid), refusal_records(mail, answer))

    def _clean(self, now_ms: int) -> None:
        try:
            with self._inbox.away():
                records, stream_records = self.cleaner.removals(self.steps.state, now_ms)
        except (InvalidInput, Unreachable) as error:
            log.warning("finished placement messages stay for now: %s", error)
            return
        if records or stream_records:
            log.info(
                "%d finished placement messages are removed", len(records) + len(stream_records)
            )
            self.steps.commit_alone(records, stream_records)

    def _no_start_because(self) -> str:
        try:
            with self._inbox.away():
                return self.requests.no_start_because()
        except Unreachable as error:
            return f"the coordinator stream can't be read: {error.seen}; ask again"


def ids_of(item: Incoming | CaughtUp) -> dict[str, str | None]:
    """Return the ids for log lines about it: a request with its group, or an incarnation."""
    if isinstance(item, Arrived):
        uuid, processor = item.ask.uuid, item.ask.processor_id
        return {"request": uuid, "processor": processor, "group": group_of(processor)}
    if isinstance(item, Malformed):
        return {"request": item.uuid}
    return {"execution": getattr(item, "execution_id", None)}
