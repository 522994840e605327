"""Work out a term's first writes from the topics.

The rehearsal runs before the former leader is fenced, so that a coordinator that can't lead
disturbs no other. Then the step is worked out again from what was read behind the fence.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.announcement import (
    announcement,
    deployment_to_lead,
    last_seen_hosts,
)
from samza_dagster.coordinator.candidacy import Leader, this_process
from samza_dagster.coordinator.deployment import Deployment
from samza_dagster.coordinator.kafka import KafkaLog, author
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.samza_topics import samza_topics
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.metadata.job_metadata import JobMetadata
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.state_writer import Records
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.metadata.write_limits import require_rights, require_room
from samza_dagster.placement import commands, events
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState, Limits

_WRITE = frozenset({"WRITE"})
_READ_WRITE = _WRITE | {"READ"}


@dataclass(frozen=True)
class FirstStep:
    """The first commit of a term: leader, deployment, and records of a new one for the coordinator stream."""

    leader: Leader
    deployment: Deployment
    records: Sequence[durable.Record]
    stream_records: Sequence[StreamRecord]

    @classmethod
    def of(
        cls,
        config: Mapping[str, str],
        records: Mapping[str, Mapping[str, Any]],
        counts: Mapping[str, int],
        metadata: JobMetadata,
        leases: LeaseTerms,
        url: str,
    ) -> FirstStep:
        """Return the first step of a coordinator at `url` that continues from the state topic's `records`.

        Raises `InvalidInput` for a config that makes no deployment, `MalformedRecord`.
        """
        now_ms = leases.began_ms
        deployment, new = deployment_to_lead(config, records, counts, metadata, now_ms=now_ms)
        process, namespace = this_process()
        leader = Leader(
            epoch=Leader.of(records.get(durable.LEADER)).epoch + 1,
            host=socket.gethostname(),
            url=url,
            lease_ms=leases.limits.lease_ms,
            beat_every_ms=leases.beat_every_ms,
            process=process,
            pid_namespace=namespace,
            ended=False,
        )
        value = {**leader.to_json(), "since_ms": now_ms, "beat_ms": now_ms}
        if new is None:
            return cls(leader, deployment, [(durable.LEADER, value)], [])
        announced = announcement(deployment, metadata, author(now_ms))
        return cls(leader, deployment, [(durable.LEADER, value), new], announced)


def first_events(
    deployment: Deployment,
    state: JobState,
    last_seen_hosts: Mapping[str, str],
    limits: Limits,
) -> Iterator[events.Event]:
    """Yield the first events of a term's reducer, before any host is heard."""
    if state.deployment_id:
        yield events.CoordinatorRestarted(0)
    if state.deployment_id != deployment.deployment_id:
        yield events.JobDeployed(
            0,
            deployment.deployment_id,
            deployment.job_model.groups(),
            dict(last_seen_hosts),
            limits,
            deployment.grouping(),
        )


@dataclass(frozen=True)
class Rehearsal:
    """A first step that is worked out from what the topics hold now, and not written.

    `config` is served to containers, `counts` are the inputs' partitions.
    """

    kafka: KafkaCluster
    connection: Connection
    config: Mapping[str, str]
    counts: Mapping[str, int]
    limits: Limits
    reader: StateReader
    log: KafkaLog
    now_ms: Callable[[], int]

    def require(self, metadata: JobMetadata) -> None:
        """Return if the brokers would accept it from this client; disturb no other coordinator.

        Raises `InvalidInput` for what config, brokers or rights don't allow, `MalformedRecord`
        for an unreadable state, and `Unreachable`.
        """
        topics = self.connection
        require_rights(
            self.kafka,
            {
                topics.state_topic: _READ_WRITE,
                topics.coordinator_stream_topic: _READ_WRITE,
                topics.audit_topic: _WRITE,
            },
        )
        records = self.reader.snapshot().values
        stored = restore(records, self.connection.own_name)
        before = Leader.of(records.get(durable.LEADER))
        leases = LeaseTerms.of(self.limits, before_ms=before.lease_ms, began_ms=self.now_ms())
        first = self.first_step(records, metadata, leases, before.url)
        require_room(self.kafka, self._commits(first, stored, metadata, leases))
        self.ensure_topics(first.deployment, rehearse=True)

    def ensure_topics(self, deployment: Deployment, *, rehearse: bool = False) -> frozenset[str]:
        """Create what the deployment's containers need, as `metadata.topics.ensure_topics` does."""
        tasks = deployment.job_model.max_change_log_stream_partitions
        assert tasks is not None  # a plan counts them
        specs = samza_topics(deployment.config, tasks)
        return ensure_topics(self.kafka, specs, rehearse=rehearse)

    def first_step(
        self,
        records: Mapping[str, Mapping[str, Any]],
        metadata: JobMetadata,
        leases: LeaseTerms,
        url: str,
    ) -> FirstStep:
        """Return the first step of a coordinator at `url` that continues from the state topic's `records`."""
        return FirstStep.of(self.config, records, self.counts, metadata, leases, url)

    def _commits(
        self, first: FirstStep, stored: JobState, metadata: JobMetadata, leases: LeaseTerms
    ) -> Iterator[Records]:
        """Yield the records of each commit of a term until it hears of its hosts."""
        yield self.log.batch(first.records, (), first.stream_records)
        state = replace(stored, limits=leases.limits) if stored.deployment_id else stored
        seen = last_seen_hosts(metadata)
        for event in first_events(first.deployment, state, seen, leases.limits):
            result = step(state, replace(event, at_ms=leases.began_ms))
            changed = durable.changed(stored, result.state, leader_epoch=first.leader.epoch)
            projections = [c for c in result.commands if isinstance(c, commands.Projection)]
            yield self.log.batch(changed, projections)
            stored = state = result.state
