"""What a coordinator would start where, worked out from what the topics hold; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Preview:
    """`starts` are what it would ask for at once.

    By processor: `runs` what it would go on with, on which host, and `later` what starts after
    others, by the host that it was last seen on ("" where none is known).
    """

    deployment_id: str
    is_new: bool
    starts: tuple[RequestResource, ...]
    runs: Mapping[str, str]
    later: Mapping[str, str]


def preview(connection: Connection, config: Mapping[str, str], limits: Limits) -> Preview:
    """Raises `InvalidInput` for what can't be led, and `Unreachable`."""
    kafka = KafkaCluster.of(connection)
    counts = partition_counts(kafka, input_topics(config))
    ensure_topics(kafka, (coordinator_stream(config), *own_topics(config)), rehearse=True)
    records = _state_records(connection)
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
    starts: list[RequestResource] = []
    for event in first_events(first.deployment, state, seen, limits):
        result = step(state, replace(event, at_ms=now_ms))
        starts += [each for each in result.commands if isinstance(each, RequestResource)]
        state = result.state
    every = [each for group in state.groups.values() for each in group.processors.values()]
    runs = {p.processor_id: p.incarnation.host for p in every if p.incarnation is not None}
    at_once = {*runs, *(each.processor_id for each in starts)}
    later = {p.processor_id: p.last_seen_host or "" for p in every if p.processor_id not in at_once}
    is_new = bool(first.stream_records)
    return Preview(first.deployment.deployment_id, is_new, tuple(starts), runs, later)


def _state_records(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
    reader = StateReader.of(connection)
    try:
        return reader.snapshot().values
    except UnknownTopic:
        return {}  # nobody of ours has led yet
    finally:
        reader.close()
