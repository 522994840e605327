"""Creating the topics that a job needs, each once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.topic_reader import TopicEnd

if TYPE_CHECKING:
    from confluent_kafka.admin import (
        ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
        ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    )

_log = logging.getLogger(__name__)
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
"""Config of a topic that keeps the newest record of every key."""


def retained(retention_ms: int) -> dict[str, str]:
    """Config of a topic whose records are dropped after a time, and never for their size."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": "-1",
    }


def replicas_on(brokers: int, wanted: int) -> int:
    """How many of the wanted replicas a cluster of so many brokers can keep: one on each at most."""
    return max(1, min(wanted, brokers))


def durable(replicas: int) -> dict[str, str]:
    """Config by which no acknowledged record is lost with one broker, where three replicas are."""
    return {"min.insync.replicas": "2"} if replicas >= 3 else {}


def reassignment(
    topic: str, partitions: Mapping[int, Sequence[int]], brokers: Sequence[int], wanted: int
) -> str:
    """What `kafka-reassign-partitions --execute` takes to give each partition the wanted replicas.

    `partitions` are the ids of those that each has now; they stay, and its leader stays first.
    """
    planned = [
        {
            "topic": topic,
            "partition": number,
            "replicas": [*has, *(b for b in brokers if b not in has)][: max(wanted, len(has))],
        }
        for number, has in sorted(partitions.items())
    ]
    return json.dumps({"version": 1, "partitions": planned})


def topic_config(cluster: KafkaCluster, name: str, timeout_s: float) -> dict[str, str] | None:
    """What holds for the topic, the brokers' defaults included; None: no right to see it.

    Raises `InvalidInput` when there is no such topic, `Unreachable`.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    resource = ConfigResource(ResourceType.TOPIC, name)
    with cluster.admin() as admin:
        described = cast(
            "dict[ConfigResource, Future[dict[str, ConfigEntry]]]",
            admin.describe_configs(  # pyright: ignore[reportUnknownMemberType]
                [resource], request_timeout=timeout_s
            ),
        )
        try:
            found = described[resource].result(timeout=timeout_s + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise cluster.failure(
                f"read the config of topic {name}", error.args[0], timeout_s, name
            ) from error
    return {name: str(entry.value) for name, entry in found.items()}


def ensure_topic(
    cluster: KafkaCluster,
    name: str,
    *,
    partitions: int = 1,
    replicas: int | None = None,
    config: Mapping[str, str] = COMPACTED,
    timeout_s: float = 30.0,
) -> bool:
    """Creates the topic if it isn't there; returns whether it was created.

    With `replicas` it has so many, or as many as there are brokers, and of three a write waits
    for two; without, the brokers' default. A topic that is there with fewer is left as it is, and
    a warning says what mends it. Returns when partition 0 answers. Raises `InvalidInput` when a topic of this name has another number of partitions or
    another cleanup policy (unless this client may not see its config: a warning says so),
    `Unreachable` when no broker answers in time.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

    asked = f"create topic {name}"
    deadline = time.monotonic() + timeout_s
    with cluster.admin() as admin:
        factor = -1
        if replicas is not None:
            brokers = _metadata(cluster, asked, timeout_s).brokers
            factor = replicas_on(len(brokers), replicas)
            config = {**config, **durable(factor)}
        wanted = NewTopic(name, partitions, factor, config=dict(config))
        futures = cast(
            "dict[str, Future[None]]",
            admin.create_topics(  # pyright: ignore[reportUnknownMemberType]
                [wanted], operation_timeout=timeout_s, request_timeout=timeout_s
            ),
        )
        created = True
        try:
            futures[name].result(timeout=timeout_s + 1)
        except TimeoutError as error:
            raise cluster.unreachable(asked, timeout_s) from error
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                admin.poll(0)
                raise cluster.failure(asked, error.args[0], timeout_s, name) from error
            created = False
    if not created:
        _check(cluster, name, partitions, config, factor, remaining_s(deadline))
    elif replicas is not None and factor < replicas:
        _log.warning(
            "topic %s has %d replicas where %d are wanted: there are no more brokers",
            *(name, factor, replicas),
        )
    end = TopicEnd(cluster, name)
    try:
        while True:
            try:
                end.offset(max(remaining_s(deadline), 1.0))
                break
            except InvalidInput:  # created, but not every broker knows it yet
                if remaining_s(deadline) <= 0:
                    raise
    finally:
        end.close()
    return created


def _metadata(cluster: KafkaCluster, asked: str, timeout_s: float) -> ClusterMetadata:
    from confluent_kafka import KafkaException

    with cluster.admin() as admin:
        try:
            return admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise cluster.failure(asked, error.args[0], timeout_s) from error


def _check(
    cluster: KafkaCluster,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    replicas: int,
    timeout_s: float,
) -> None:
    asked = f"use the existing topic {name}"
    metadata = _metadata(cluster, asked, timeout_s)
    known = metadata.topics.get(name)
    found = topic_config(cluster, name, timeout_s)
    # A broker that doesn't know a topic yet which was just created has nothing to compare.
    has = partitions if known is None else len(known.partitions)
    if has != partitions:
        raise InvalidInput(
            asked,
            seen=f"{has} partitions instead of {partitions}",
            fix="another job name or id, or delete the topic if nothing needs it",
        )
    if known is not None:
        _warn_of_few_replicas(
            name,
            {number: partition.replicas for number, partition in known.partitions.items()},
            sorted(metadata.brokers),
            replicas,
        )
    if found is None:
        _log.warning(
            "the cleanup policy of %s isn't checked: this client has no right to see it; ALLOW "
            "its principal DESCRIBE_CONFIGS on the topic",
            name,
        )
        return
    policy = config.get("cleanup.policy")
    seen = found["cleanup.policy"]
    if policy is not None and seen != policy:
        raise InvalidInput(
            asked,
            seen=f"cleanup.policy={seen} instead of {policy}",
            fix=f"set cleanup.policy={policy} on {name}",
        )


def _warn_of_few_replicas(
    name: str, partitions: Mapping[int, Sequence[int]], brokers: Sequence[int], wanted: int
) -> None:
    fewest = min(map(len, partitions.values()), default=wanted)
    if fewest < wanted:
        _log.warning(
            "topic %s has %d replicas where %d are wanted, and is lost with their disks: "
            "kafka-reassign-partitions --execute --reassignment-json-file FILE, with %s in FILE",
            *(name, fewest, wanted, reassignment(name, partitions, brokers, wanted)),
        )
