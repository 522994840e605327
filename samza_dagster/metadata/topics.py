"""Creating the topics that a job needs, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from samza_dagster.errors import InvalidInput, UnknownTopic
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s, share_of
from samza_dagster.metadata.replicas import (
    cluster_metadata,
    durable,
    kept_topic,
    replicas_on,
    shortcomings,
    topic_configs,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

_log = logging.getLogger(__name__)
_PAUSE_S = 0.05
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
    for two; without, the brokers' default. A topic that is there is left as it is, and a warning
    says what it lacks of that, and what mends it. Returns when the leader of every partition
    answers that was created; one of a topic that was there may have none, and others are used.
    Raises `InvalidInput` when a topic of this name has another number of partitions or
    another cleanup policy (unless this client may not see its config: a warning says so),
    `Unreachable` when no broker, or not every leader, answers in time.
    """
    asked = f"create topic {name}"
    deadline = time.monotonic() + timeout_s
    metadata = cluster_metadata(cluster, asked, timeout_s)
    factor = -1
    if replicas is not None:
        factor = replicas_on(len(metadata.brokers), replicas)
        config = {**config, **durable(factor)}
    # What is there needs no controller: of brokers that are left without one it can be asked.
    created = name not in metadata.topics and _create(
        cluster, name, partitions, factor, config, timeout_s
    )
    if not created:
        _check(cluster, name, partitions, config, replicas, remaining_s(deadline))
    elif replicas is not None and factor < replicas:
        _log.warning(
            "topic %s has %d replicas where %d are wanted: there are no more brokers",
            *(name, factor, replicas),
        )
    # Of one that was there the first may have been created a moment ago, by another client.
    waited_for = partitions if created else 1
    _wait_for_leaders(cluster, name, waited_for, max(remaining_s(deadline), 1.0))
    return created


def _create(
    cluster: KafkaCluster,
    name: str,
    partitions: int,
    factor: int,
    config: Mapping[str, str],
    timeout_s: float,
) -> bool:
    """Whether it wasn't there."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

    asked = f"create topic {name}"
    with cluster.admin() as admin:
        wanted = NewTopic(name, partitions, factor, config=dict(config))
        futures = cast(
            "dict[str, Future[None]]",
            admin.create_topics(  # pyright: ignore[reportUnknownMemberType]
                [wanted], operation_timeout=timeout_s, request_timeout=timeout_s
            ),
        )
        try:
            futures[name].result(timeout=timeout_s + 1)
        except TimeoutError as error:
            raise cluster.unreachable(asked, timeout_s) from error
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                admin.poll(0)
                raise cluster.failure(asked, error.args[0], timeout_s, name) from error
            return False
    return True


def _wait_for_leaders(cluster: KafkaCluster, name: str, partitions: int, timeout_s: float) -> None:
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + timeout_s
    unread: dict[int, KafkaError] = {}
    consumer = cluster.reader(committed_only=False)
    try:
        while True:
            try:
                unread = _unread(consumer, name, partitions, share_of(remaining_s(deadline)))
            except KafkaException as error:
                # The last question may have no time left; what an earlier one told says more.
                unread = unread or {0: cast("KafkaError", error.args[0])}
            # One that was just created isn't known to every broker yet, nor are its leaders.
            if not unread:
                return
            if remaining_s(deadline) <= 0:
                raise cluster.unread(name, *min(unread.items()))
            consumer.poll(_PAUSE_S)
    finally:
        consumer.close()


def _unread(
    consumer: Consumer, name: str, partitions: int, timeout_s: float
) -> dict[int, KafkaError]:
    """The partitions that have no leader; when all have one, those whose leader doesn't answer."""
    from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition

    known = consumer.list_topics(name, timeout=timeout_s).topics[name]
    if known.error is not None:
        raise KafkaException(known.error)
    led = {number for number, found in known.partitions.items() if found.leader >= 0}
    lost = [number for number in range(partitions) if number not in led]
    if lost:
        return dict.fromkeys(lost, KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    ends = [TopicPartition(name, number, OFFSET_END) for number in range(partitions)]
    asked = consumer.offsets_for_times(ends, timeout=timeout_s)
    return {tp.partition: tp.error for tp in asked if tp.error is not None}


def _config_of_known(cluster: KafkaCluster, name: str, timeout_s: float) -> dict[str, str] | None:
    """The config of a topic that one broker knows; another may hear of it a moment later."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return topic_config(cluster, name, max(remaining_s(deadline), 1.0))
        except UnknownTopic:
            if remaining_s(deadline) <= 0:
                raise
        time.sleep(_PAUSE_S)


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
    found = _config_of_known(cluster, name, timeout_s)
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
