"""What `samza-dagster doctor` finds: whether a job's brokers allow what its config asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from samza_dagster.coordinator.deployment import input_topics, wanted_replicas
from samza_dagster.coordinator.fence_examination import Finding, examine
from samza_dagster.coordinator.kafka import partition_counts
from samza_dagster.coordinator.leases import outlived, short_lease
from samza_dagster.coordinator.limits import FENCING, LEASE, limits_of
from samza_dagster.coordinator.principals import Principals, systems_apart
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection, client_config_of, read_properties
from samza_dagster.metadata.job_owner import require_own_topics
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.replicas import (
    ENOUGH,
    IN_SYNC,
    WAITED_FOR,
    Kept,
    kept_topics,
    shortcomings,
)

_ANSWER_S = 10.0


def findings(config: Mapping[str, str], cluster: KafkaCluster) -> Iterator[Finding]:
    """Every condition, as it is tried; raises `Unreachable`."""
    try:
        counts = partition_counts(cluster, input_topics(config))
    except InvalidInput as error:
        yield Finding("the job's inputs exist", False, error.seen, error.fix)
    else:
        seen = ", ".join(f"{topic}: {number} partitions" for topic, number in counts.items())
        yield Finding("the job's inputs exist", True, seen)
    yield from topic_findings(config, cluster)
    yield _lease(config)
    try:
        principals = Principals.of(config)
    except InvalidInput as error:
        yield Finding(error.asked, False, error.seen, error.fix)
        return
    yield Finding(
        f"{FENCING} is possible as it is set",
        True,
        "lease: an overlap with a frozen host is bounded, not excluded"
        if principals is None
        else f"broker, at {principals.bootstrap_servers}",
    )
    if principals is None:
        return
    apart = systems_apart(config, principals)
    yield Finding(
        "the fence covers every Kafka system of the job",
        True,
        f"not {', '.join(apart)}, at other brokers: what is written there isn't fenced"
        if apart
        else ", ".join(principals.systems),
    )
    yield from examine(principals, cluster, config)


def topic_findings(config: Mapping[str, str], cluster: KafkaCluster) -> Iterator[Finding]:
    """Whether the job's topics outlive the loss of a broker; raises `Unreachable`."""
    try:
        wanted = wanted_replicas(config)
    except InvalidInput as error:
        yield Finding(ENOUGH, False, f"{error.asked}: {error.seen}", error.fix)
        return
    kept = kept_topics(cluster, wanted, _ANSWER_S)
    yield from judged(kept, wanted, cluster.bootstrap_servers)


def judged(kept: Kept, wanted: Mapping[str, int], servers: str) -> Iterator[Finding]:
    """One finding a condition that all topics meet, else one for each that doesn't. Pure."""
    found = [
        each
        for name, topic in kept.topics.items()
        for each in shortcomings(topic, kept.brokers, wanted[name], servers)
    ]
    seen = f"{len(kept.topics)} topics, {len(kept.brokers)} brokers"
    for condition in (ENOUGH, IN_SYNC, WAITED_FOR):
        lacking = [each for each in found if each.condition == condition]
        if not lacking:
            yield Finding(condition, True, seen)
        for each in lacking:
            yield Finding(condition, False, each.seen, each.fix)


def _lease(config: Mapping[str, str]) -> Finding:
    """The bounds, and what the lease lives through: to have a short one is the job's own choice."""
    check = f"{LEASE.key} and the other limits are within their bounds"
    try:
        limits = limits_of(config)
    except InvalidInput as error:
        return Finding(check, False, f"{error.asked}: {error.seen}", error.fix)
    return Finding(check, True, short_lease(limits) or outlived(limits))


def report(config: Path) -> Iterator[Finding]:
    """The findings for a job's config and topics, with the login that the environment names.

    Raises `Unreachable` as `findings`.
    """
    connection = Connection.from_properties(config, client_config=client_config_of(os.environ))
    cluster = KafkaCluster(connection.bootstrap_servers, connection.client_config)
    yield from findings(read_properties(config, "the job's config"), cluster)
    yield owner(connection)


def owner(connection: Connection) -> Finding:
    """Whether coordinator stream and state topic are this job's, or nobody's yet."""
    check = "the job's topics are no other job's"
    try:
        require_own_topics(connection)
    except InvalidInput as error:
        return Finding(check, False, error.seen, error.fix)
    return Finding(check, True, f"{connection.coordinator_stream_topic}, {connection.state_topic}")
