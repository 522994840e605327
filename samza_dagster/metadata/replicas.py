"""The replication of topics: wanted, in sync and awaited replicas, and the remedies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from samza_dagster.metadata.kafka_client import KafkaCluster

TRANSACTIONS = "__transaction_state"
"""Kafka's own topic, which every commit of a transaction needs."""
MIN_IN_SYNC = "min.insync.replicas"
ENOUGH = "the job's topics have as many replicas as are wanted"
IN_SYNC = "all replicas of the job's topics are in sync"
AS_MADE = "the job's topics are there, as Samza makes them"
WAITED_FOR = "a write to a topic of three replicas waits for two of them"


@dataclass(frozen=True)
class Partition:
    """Node ids of the brokers with a replica, and of those in sync."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class KeptTopic:
    """A topic by the brokers' report; `config` None: this client may not see it."""

    name: str
    partitions: Mapping[int, Partition]
    config: Mapping[str, str] | None = None

    @property
    def min_in_sync(self) -> int | None:
        """Return the replicas that a write waits for; None when unknown."""
        return None if self.config is None else int(self.config[MIN_IN_SYNC])

    @property
    def fewest(self) -> int:
        """Return the replicas of the partition that has the fewest."""
        return min((len(p.replicas) for p in self.partitions.values()), default=0)


@dataclass(frozen=True)
class KeptTopics:
    """Some topics of a cluster, by name, and the node ids of its brokers."""

    brokers: tuple[int, ...]
    topics: Mapping[str, KeptTopic]


@dataclass(frozen=True)
class Shortcoming:
    """A condition (`AS_MADE`, `ENOUGH`, `IN_SYNC`, `WAITED_FOR`) that a topic doesn't meet."""

    condition: str
    topic: str
    seen: str
    fix: str  # the remedy

    def __str__(self) -> str:
        return f"{self.seen}: {self.fix}"


def replicas_on(brokers: int, wanted: int) -> int:
    """Return how many of the wanted replicas a cluster can keep: one on each broker at most."""
    return max(1, min(wanted, brokers))


def durable(replicas: int) -> dict[str, str]:
    """Return the config by which the loss of one of three replicas loses no acknowledged record."""
    return {MIN_IN_SYNC: "2"} if replicas >= 3 else {}


def shortcomings(
    topic: KeptTopic, brokers: Sequence[int], wanted: int, servers: str
) -> Iterator[Shortcoming]:
    """Yield what a topic lacks of `wanted` replicas, at most one per broker. Pure."""
    if not topic.partitions:
        return
    name = topic.name
    wanted = replicas_on(len(brokers), wanted)
    if topic.fewest < wanted:
        yield Shortcoming(
            ENOUGH,
            name,
            f"topic {name} has {topic.fewest} replicas where {wanted} are wanted, and is lost "
            "with their disks",
            _reassign(topic, brokers, wanted, servers),
        )
    lacking = {n: p for n, p in topic.partitions.items() if set(p.replicas) - set(p.in_sync)}
    if lacking:
        yield _out_of_sync(topic, lacking, brokers, servers)
    # Not before two are in sync, because until then it would stop every write.
    elif topic.fewest >= 3 and topic.min_in_sync == 1:
        yield Shortcoming(
            WAITED_FOR,
            name,
            f"topic {name} has {topic.fewest} replicas and {MIN_IN_SYNC}=1: what one broker alone "
            "acknowledged is lost with its disk",
            f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics "
            f"--entity-name {name} --add-config {MIN_IN_SYNC}=2",
        )


def _out_of_sync(
    topic: KeptTopic, lacking: Mapping[int, Partition], brokers: Sequence[int], servers: str
) -> Shortcoming:
    missed = {each for p in lacking.values() for each in set(p.replicas) - set(p.in_sync)}
    # Only a broker that was in sync can lead the partition again.
    away = sorted((missed | {each for p in lacking.values() for each in p.in_sync}) - set(brokers))
    seen = (
        f"topic {topic.name}: {len(lacking)} of {len(topic.partitions)} partitions lack replicas "
        f"in sync, on {_broker_list(sorted(missed))}"
    )
    if not away:
        fix = f"wait until {_broker_list(sorted(missed))} has what the others have, or see its log"
        return Shortcoming(IN_SYNC, topic.name, seen, fix)
    fix = f"start {_broker_list(away)}"
    left = {
        n: Partition(tuple(b for b in p.replicas if b in brokers), p.in_sync)
        for n, p in topic.partitions.items()
    }
    is_alive = all(set(p.in_sync) & set(brokers) for p in left.values())
    if is_alive and len(brokers) >= topic.fewest:
        command = _reassign(KeptTopic(topic.name, left), brokers, topic.fewest, servers)
        fix += f", or where it is lost for good: {command}"
    return Shortcoming(IN_SYNC, topic.name, f"{seen} ({_broker_list(away)} is away)", fix)


def no_write_because(kept: KeptTopics) -> str:
    """Return which topics can't take a write now for lack of replicas, and what is needed.

    Empty when all can, as far as known. Pure.
    """
    found: list[str] = []
    for topic in kept.topics.values():
        least = topic.min_in_sync or 1
        there = {n: set(p.in_sync) & set(kept.brokers) for n, p in topic.partitions.items()}
        short = sorted((len(those), n) for n, those in there.items() if len(those) < least)
        if short:
            count, number = short[0]
            missing = sorted({*topic.partitions[number].replicas} - there[number])
            lacking = (
                f"without {_broker_list(missing)}" if missing else "and it has no more of them"
            )
            more = f" and {len(short) - 1} partitions more" if len(short) > 1 else ""
            found.append(
                f"{topic.name}-{number}{more}: {count} replicas in sync where a write waits for "
                f"{least}, {lacking}"
            )
    return "; ".join(found)


def _broker_list(brokers: Sequence[int]) -> str:
    return f"broker {', '.join(map(str, brokers))}"


def _reassign(topic: KeptTopic, brokers: Sequence[int], wanted: int, servers: str) -> str:
    has = {number: partition.replicas for number, partition in topic.partitions.items()}
    plan = reassignment(topic.name, has, brokers, wanted)
    return (
        f"echo '{plan}' > replicas.json && kafka-reassign-partitions.sh "
        f"--bootstrap-server {servers} --reassignment-json-file replicas.json --execute"
    )


def reassignment(
    topic: str, partitions: Mapping[int, Sequence[int]], brokers: Sequence[int], wanted: int
) -> str:
    """Return the input of `kafka-reassign-partitions.sh --execute` for the wanted replicas.

    `partitions` are the node ids that each has now; they stay, and its leader stays first.
    """
    # The others begin at another broker for each partition, so that all get some.
    planned: list[dict[str, object]] = []
    for number, has in sorted(partitions.items()):
        others = [each for each in brokers if each not in has]
        first = number % len(others) if others else 0
        replicas = [*has, *others[first:], *others[:first]][: max(wanted, len(has))]
        planned.append({"topic": topic, "partition": number, "replicas": replicas})
    return json.dumps({"version": 1, "partitions": planned})


def kept_topics(cluster: KafkaCluster, names: Collection[str], timeout_s: float) -> KeptTopics:
    """Return the replication of the topics that exist and that this client may see.

    Raises `Unreachable`.
    """
    metadata = cluster_metadata(cluster, "read how topics are kept", timeout_s)
    there = sorted(set(names) & metadata.topics.keys())
    configs = topic_configs(cluster, there, timeout_s)
    return KeptTopics(
        tuple(sorted(metadata.brokers)),
        {name: kept_topic(name, metadata, configs[name]) for name in there},
    )


def kept_topic(name: str, metadata: ClusterMetadata, config: Mapping[str, str] | None) -> KeptTopic:
    """Return a topic of the metadata; `config` None: this client may not see it."""
    found = metadata.topics[name].partitions
    partitions = {n: Partition(tuple(p.replicas), tuple(p.isrs)) for n, p in found.items()}
    return KeptTopic(name, partitions, config)


def cluster_metadata(cluster: KafkaCluster, asked: str, timeout_s: float) -> ClusterMetadata:
    """Return brokers and topics by one broker's report. Raise `Unreachable` about `asked`."""
    with cluster.admin() as admin:
        try:
            return admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            admin.poll(0)  # lets it report what it noted, such as a wrong password
            raise cluster.failure(asked, error.args[0], timeout_s) from error


def topic_configs(
    cluster: KafkaCluster, names: Collection[str], timeout_s: float
) -> dict[str, dict[str, str] | None]:
    """Return each topic's config with the brokers' defaults; None: no right to see it.

    Raises `InvalidInput` when there is no such topic, `Unreachable`.
    """
    if not names:
        return {}
    found: dict[str, dict[str, str] | None] = {}
    with cluster.admin() as admin:
        described = cast(
            "dict[ConfigResource, Future[dict[str, ConfigEntry]]]",
            admin.describe_configs(  # pyright: ignore[reportUnknownMemberType]
                [ConfigResource(ResourceType.TOPIC, name) for name in names],
                request_timeout=timeout_s,
            ),
        )
        for resource, future in described.items():
            name = str(resource.name)
            try:
                entries = future.result(timeout=timeout_s + 1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    asked = f"read the config of topic {name}"
                    raise cluster.failure(asked, error.args[0], timeout_s, name) from error
                found[name] = None
            else:
                found[name] = {key: str(entry.value) for key, entry in entries.items()}
    return found
