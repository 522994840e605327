"""Preview what a coordinator would start where, by the topics; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.announcement import last_seen_hosts
from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.deployment import input_topics
from samza_dagster.coordinator.first_step import FirstStep, first_events
from samza_dagster.coordinator.kafka import partition_counts
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.samza_topics import coordinator_stream, own_topics
from samza_dagster.coordinator.stream_health import followed_stream
from samza_dagster.errors import UnknownTopic
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_metadata import JobMetadata
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.placement.commands import RequestResource
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import Limits


def preview(connection: Connection, config: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    """Return the deployment, whether it is `new`, and each container's first step.

    Its `step` is `runs` (it goes on), `starts`, or `later` (after others); `host` is where, or
    where it was last seen, `any` where none is known. Raises `InvalidInput` for what can't be led,
    and `Unreachable`.
    """
    kafka = KafkaCluster.of(connection)
    counts = partition_counts(kafka, input_topics(config))
    ensure_topics(kafka, (coordinator_stream(config), *own_topics(config)), rehearse=True)
    records: Mapping[str, Mapping[str, Any]] = {}
    with closing(StateReader.of(connection)) as reader, suppress(UnknownTopic):  # nobody led yet
        records = reader.snapshot().values
    stored = restore(records, connection.own_name)
    now_ms = LeaderClock().now_ms()
    before = Leader.of(records.get(durable.LEADER))
    leases = LeaseTerms.of(limits, before_ms=before.lease_ms, began_ms=now_ms)
    store, _ = followed_stream(connection)
    with closing(store):
        metadata = JobMetadata(store)
        first = FirstStep.of(config, records, counts, metadata, leases, before.url)
        seen = last_seen_hosts(metadata)
    state = replace(stored, limits=limits) if stored.deployment_id else stored
    starts: dict[str, str | None] = {}
    for event in first_events(first.deployment, state, seen, limits):
        result = step(state, replace(event, at_ms=now_ms))
        asks = (each for each in result.commands if isinstance(each, RequestResource))
        starts |= {each.processor_id: each.host for each in asks}
        state = result.state
    containers: list[dict[str, str]] = []
    for processor in (
        each for group in state.groups.values() for each in group.processors.values()
    ):
        if processor.incarnation is not None:
            does, host = "runs", processor.incarnation.host
        elif processor.processor_id in starts:
            does, host = "starts", starts[processor.processor_id]
        else:
            does, host = "later", processor.last_seen_host
        containers.append(
            {"processor": processor.processor_id, "step": does, "host": host or "any"}
        )
    deployment, is_new = first.deployment.deployment_id, bool(first.stream_records)
    return {"deployment": deployment, "new": is_new, "containers": containers}
