"""Leadership of a job, term after term, until stopped or fenced."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from samza_dagster.agent.logs import process_is
from samza_dagster.cluster.interface import (
    JSON,
    ClusterFactory,
    ClusterResourceManager,
    ClusterTerm,
)
from samza_dagster.coordinator import deployment as deployments
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.adoption import require_ended, require_ours
from samza_dagster.coordinator.announcement import last_seen_hosts
from samza_dagster.coordinator.candidacy import Candidacy, Leader, claim_of_this_process
from samza_dagster.coordinator.cleaning import FinishedMessages
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.ending import stop_all
from samza_dagster.coordinator.fencing.job_fencing import JobFencing
from samza_dagster.coordinator.first_step import FirstStep, Rehearsal
from samza_dagster.coordinator.garbage import spare_what_lasts
from samza_dagster.coordinator.kafka import (
    KafkaLog,
    KafkaOwnRequests,
    KafkaRequests,
    partition_counts,
)
from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.leases import LeaseTerms, short_lease
from samza_dagster.coordinator.limits import (
    CLEAN_AFTER,
    knows_fault_domains,
    limits_of,
    parks_starts,
)
from samza_dagster.coordinator.metrics import CONTENT_TYPE
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.coordinator.samza_topics import coordinator_stream, own_topics
from samza_dagster.coordinator.steps import Steps
from samza_dagster.coordinator.stream_health import followed_stream
from samza_dagster.coordinator.term import Term
from samza_dagster.errors import Fenced, SamzaDagsterError, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_metadata import JobMetadata
from samza_dagster.metadata.job_owner import read_deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import TAKE_OVER, Snapshot, StateReader, encode_record
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.model.naming import transactional_id
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import Limits

_GATHER_S = 1.0
"""A new leader chooses a host for a container once no other has registered for so long."""
_STOP_S = 30.0
"""What the end of all containers may take beside the grace that each has."""
_FREE_S = 5.0
"""A leader of this machine that has ended frees its address by then."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaderSettings:
    """Settings that a coordinator starts with.

    `lease_s` None is the config's. `take_over_now`: don't wait for a live leader. `adopt`:
    lead a job that another coordinator than ours has deployed, when that has ended. `end_job`: stop
    every container in place of leading, and give back what the cluster keeps for the job.
    """

    connection: Connection
    config: Mapping[str, str]
    launch: LaunchTemplate
    cluster: ClusterFactory
    lease_s: float | None = None
    take_over_now: bool = False
    adopt: bool = False
    end_job: bool = False

    def limits(self) -> Limits:
        """Return the job's bounds; raises `InvalidInput` that names the setting."""
        limits = limits_of(self.config)
        return (
            limits if self.lease_s is None else replace(limits, lease_ms=int(self.lease_s * 1000))
        )


class _Candidate(NamedTuple):
    """A coordinator that could lead, and may write nothing yet."""

    rehearsal: Rehearsal
    writer: StateWriter
    clock: LeaderClock


class Leadership:
    """A wait for the turn, then terms one after another; `stop` ends either."""

    def __init__(
        self,
        settings: LeaderSettings,
        *,
        clock: Callable[[], LeaderClock] = LeaderClock,
        recorder: JsonLinesRecorder | None = None,
    ) -> None:
        self._settings = settings
        self._limits = settings.limits()
        deployments.require_sound(settings.config)
        self._fencing = JobFencing.of(settings.config)
        self._clock = clock
        self._recorder = recorder
        self._stopped = threading.Event()
        self._term: Term | None = None
        self._leads = False
        self._take_over_now = settings.take_over_now
        self._was_fenced = False
        self._led_epoch = 0
        self._fenced: Fenced | None = None
        self._settle_s = 0.0
        self._connected = False
        self.ended = 0
        """How many containers `end_job` has stopped."""

    def stop(self) -> None:
        """End after the current step; containers run on."""
        self._stopped.set()
        if self._term is not None:
            self._term.stop()

    def run(self) -> None:
        """Lead until stopped; a broker that is away is waited for.

        A coordinator that loses the race keeps waiting. So does one that is fenced after leading,
        until its successor leads; then `Fenced` is raised. Raises `InvalidInput` for a config or
        a state that can't be led on, and `MissingPrerequisite` for an unusable address, both
        while the former leader still leads.
        """
        if why := short_lease(self._limits):
            log.warning("%s", why)
        while not self._stopped.is_set():
            self._leads = False
            try:
                self._lead_one_term()
            except Unreachable as error:
                if not self._connected:
                    raise
                log.warning("the broker is away, containers run on: %s", error)
                self._stopped.wait(1.0)
            except Fenced as error:
                if error is self._fenced:
                    raise
                if self._leads:
                    self._fenced = error
                    log.warning("another coordinator took over, and may not lead yet: %s", error)
                else:
                    log.info("another coordinator was first: %s", error.seen)
                self._take_over_now = False
                self._was_fenced = True

    def _lead_one_term(self) -> None:
        settings, connection = self._settings, self._settings.connection
        with ExitStack() as stack:
            candidate = self._candidate(stack)
            rehearsal = candidate.rehearsal
            if not self._is_my_turn(candidate):
                return
            open_cluster = stack.enter_context(
                settings.cluster.prepare(_FREE_S if self._settle_s else 0.0)
            )
            store, health = followed_stream(connection)
            stack.callback(store.close)
            metadata = JobMetadata(store)
            settings.cluster.require()
            for line in settings.cluster.advice(self._limits.lease_ms / 1000):
                log.warning("%s", line)
            rehearsal.require(metadata)
            # Every refusal is before this line: so far the former leader is undisturbed.
            snapshot = stack.enter_context(self._take_over(candidate.writer))
            if self._stopped.wait(self._settle_s):
                return
            steps = self._first_step(stack, candidate, snapshot.values, metadata, open_cluster)
            term = Term(
                steps,
                requests=KafkaRequests(store, health),
                own_requests=KafkaOwnRequests(rehearsal.reader, snapshot),
                cleaner=FinishedMessages(
                    store, rehearsal.reader, older_than_ms=CLEAN_AFTER.of(settings.config)
                ),
                heed_fault_domains=knows_fault_domains(settings.config),
            )
            steps.cluster.add_page("/status", JSON, lambda: json.dumps(term.status()).encode())
            steps.cluster.add_page("/metrics", CONTENT_TYPE, term.metrics)
            if settings.end_job:
                self._end_job(steps)
                return
            self._term = term
            self._take_over_now = self._was_fenced = False
            self._fenced = None
            if self._stopped.is_set():
                return
            self._begin_to_watch(stack, steps, term)
            spare_what_lasts()
            deployed, epoch = steps.deployment.deployment_id, steps.leader.epoch
            process_is(run=deployed, epoch=epoch)
            log.info("leading %s in epoch %d", deployed, epoch)
            if self._recorder is not None:
                self._recorder.begin(epoch, snapshot.values, steps.state)
            term.lead(last_seen_hosts(metadata))

    def _end_job(self, steps: Steps) -> None:
        self.ended = stop_all(
            steps.cluster,
            steps.state,
            lease_s=steps.leases.limits.lease_ms / 1000,
            stop_s=_STOP_S + self._settings.launch.stop_grace_s,
        )
        steps.cluster.finish()
        steps.end_in_order()
        self._stopped.set()

    def _candidate(self, stack: ExitStack) -> _Candidate:
        """Return the candidate; refuse what visibly can't be led, before any wait."""
        settings, connection = self._settings, self._settings.connection
        deployed = read_deployed(connection)
        require_ours(deployed, adopt=settings.adopt)
        require_ended(deployed, connection, self._stopped)
        kafka = KafkaCluster.of(connection)
        counts = partition_counts(kafka, deployments.input_topics(settings.config))
        self._fencing.begin_examination(kafka)
        wanted = (coordinator_stream(settings.config), *own_topics(settings.config))
        ensure_topics(kafka, wanted, used_at_once=True)
        clock = self._clock()
        reader = StateReader.of(connection)
        stack.callback(reader.close)
        writer = StateWriter(
            connection.bootstrap_servers,
            connection.state_topic,
            transactional_id(connection.job_name, connection.job_id),
            client_config=connection.client_config,
        )
        stack.callback(writer.close)
        self._fencing.require()
        rehearsal = Rehearsal(
            kafka,
            connection,
            self._fencing.config,
            counts,
            self._limits,
            reader,
            KafkaLog(connection, writer, clock.now_ms, self._stopped.is_set),
            clock.now_ms,
        )
        return _Candidate(rehearsal, writer, clock)

    def _first_step(
        self,
        stack: ExitStack,
        candidate: _Candidate,
        records: Mapping[str, Mapping[str, Any]],
        metadata: JobMetadata,
        open_cluster: Callable[[ClusterTerm], ClusterResourceManager],
    ) -> Steps:
        """Commit that this coordinator leads, from the state topic's `records` behind the fence."""
        settings, connection = self._settings, self._settings.connection
        stored = restore(records, connection.own_name)
        clock = self._clock()
        clock.go_on_from(durable.shown_ms(records, stored))
        began_ms = clock.now_ms()
        before = Leader.of(records.get(durable.LEADER))
        rehearsal = candidate.rehearsal
        fence = self._fencing.at_take_over(rehearsal.kafka, stored, self._note_fenced)
        limits = self._limits if fence is None else fence.limits(self._limits)
        leases = LeaseTerms.of(limits, before_ms=before.lease_ms, began_ms=began_ms)
        kafka_log = KafkaLog(connection, candidate.writer, clock.now_ms, self._stopped.is_set)
        cluster = open_cluster(
            ClusterTerm(
                epoch=before.epoch + 1,
                lease_s=leases.limits.lease_ms / 1000,
                granted_s=leases.lease_ms / 1000,
                host_timeout_s=leases.limits.host_timeout_ms / 1000,
                lease_source=lambda: leases.grant_s(clock.now_ms()),
                gather_s=_GATHER_S,
                clock=clock.seconds,
            )
        )
        stack.callback(cluster.close)
        first = rehearsal.first_step(records, metadata, leases, cluster.url)
        self._ensure_topics(rehearsal, first)
        kafka_log.commit(first.records, (), first.stream_records)
        self._leads, self._led_epoch = True, first.leader.epoch
        leases.committed(began_ms)
        if fence is not None:
            fence.clean_up()
        return Steps(
            log=kafka_log,
            cluster=cluster,
            deployment=first.deployment,
            launcher=Launcher(
                settings.launch,
                connection.job_name,
                connection.job_id,
                first.deployment.job_model,
                self._fencing.principals,
                parked_starts=parks_starts(settings.config),
            ),
            stored=stored,
            state=replace(stored, limits=leases.limits) if stored.deployment_id else stored,
            leader=first.leader,
            leases=leases,
            clock=clock,
            recorder=self._recorder,
            fence=None if fence is None else fence.fence,
        )

    def _begin_to_watch(self, stack: ExitStack, steps: Steps, term: Term) -> None:
        """Start the fence and the observer of standbys' lag, until the term is over."""
        if steps.fence is not None:
            stack.callback(steps.fence.close)
            steps.fence.start()
        observer = LagObserver.over_kafka(
            self._settings.connection,
            steps.deployment.config,
            state=lambda: steps.state,
            job_model=lambda: steps.launcher_with_extras().job_model,
            tell=term.observe,
            now_ms=steps.clock.now_ms,
        )
        if observer is not None:
            term.observes_lags = True
            stack.callback(observer.close)
            observer.start()

    def _ensure_topics(self, rehearsal: Rehearsal, first: FirstStep) -> None:
        """Create the deployment's missing topics."""
        made = rehearsal.ensure_topics(first.deployment)
        if made and not first.stream_records:
            log.warning(
                "topics of deployment %s were gone, and are there again, empty: %s. What was in "
                "them is on the hosts' disks alone: keep the actives where they are",
                *(first.deployment.deployment_id, ", ".join(sorted(made))),
            )

    def _note_fenced(self, execution_id: str) -> None:
        if self._term is not None:
            self._term.fenced(execution_id)

    def _require_able_behind(self, rehearsal: Rehearsal, leader: Leader) -> None:
        """Raise if this coordinator couldn't lead after `leader`: a candidate must be able to."""
        self._settings.cluster.require(beside=(leader.host, leader.url))
        store, _ = followed_stream(self._settings.connection)
        with closing(store):
            rehearsal.require(JobMetadata(store))

    @contextmanager
    def _take_over(self, writer: StateWriter) -> Generator[Snapshot]:
        """Take over; if leading fails, write that, so that the former leader may go on."""
        try:
            yield writer.take_over(claim=claim_of_this_process())
        except (Fenced, Unreachable):
            raise  # another must report it, or no report is possible: others see the silence
        except Exception:
            self._withdraw(writer)
            raise
        else:
            self._withdraw(writer)

    def _withdraw(self, writer: StateWriter) -> None:
        if self._leads or not writer.is_leading:
            return
        log.warning("took over and doesn't lead: the former leader, or a spare, may lead now")
        mark = encode_record(TAKE_OVER, claim_of_this_process(ended=True))
        try:
            writer.commit([(self._settings.connection.state_topic, *mark)])
        except SamzaDagsterError as error:
            log.warning("that isn't written, they see it by this one's silence: %s", error)

    def _is_my_turn(self, candidate: _Candidate) -> bool:
        """Wait until no other leads, or return at once on `take_over_now`; False when stopped.

        A coordinator that led raises the error that fenced it once another leads.
        """
        fenced = self._fenced
        candidacy = Candidacy(
            candidate.rehearsal.reader,
            fingerprint=deployments.fingerprint(self._fencing.config),
            seconds=candidate.clock.seconds,
            stopped=self._stopped,
            was_fenced=self._was_fenced,
            led_epoch=None if fenced is None else self._led_epoch,
        )
        self._settle_s = 0.0
        if self._take_over_now:
            self._connected = True
            return True
        # A fenced coordinator could lead; the other's acts don't change that.
        able = partial(self._require_able_behind, candidate.rehearsal)
        why = candidacy.wait(
            on_connected=self._note_connected,
            on_waiting=able if fenced is None else lambda _: None,
        )
        if fenced is not None and candidacy.another_leads:
            raise fenced
        self._settle_s = candidacy.settle_s
        if why:
            log.info("taking over: %s", why)
        return bool(why)

    def _note_connected(self) -> None:
        self._connected = True
