"""Creating the topics that a job needs, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import cast

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.replicas import (
    cluster_metadata,
    durable,
    kept_topic,
    replicas_on,
    shortcomings,
    topic_configs,
)
from samza_dagster.metadata.topic_reader import TopicEnd

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


def topic_config(cluster: KafkaCluster, name: str, timeout_s: float) -> dict[str, str] | None:
    """What holds for the topic, the brokers' defaults included; None: no right to see it.

    Raises `InvalidInput` when there is no such topic, `Unreachable`.
    """
    return topic_configs(cluster, [name], timeout_s)[name]


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
            brokers = cluster_metadata(cluster, asked, timeout_s).brokers
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
        _check(cluster, name, partitions, config, replicas, remaining_s(deadline))
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


def _check(
    cluster: KafkaCluster,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    replicas: int | None,
    timeout_s: float,
) -> None:
    asked = f"use the existing topic {name}"
    metadata = cluster_metadata(cluster, asked, timeout_s)
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
    if known is not None and replicas is not None:
        kept = kept_topic(name, metadata, found)
        brokers = sorted(metadata.brokers)
        for each in shortcomings(kept, brokers, replicas, cluster.bootstrap_servers):
            _log.warning("%s", each)
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
