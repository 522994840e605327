"""Creating the topics that a job needs, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.topic_reader import TopicEnd

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry  # pyright: ignore[reportPrivateImportUsage]

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
    replication_factor: int = -1,
    config: Mapping[str, str] = COMPACTED,
    timeout_s: float = 30.0,
) -> bool:
    """Creates the topic if it isn't there; returns whether it was created.

    `replication_factor` -1 is the broker's default. Returns when partition 0 answers.
    Raises `InvalidInput` when a topic of this name has another number of partitions or
    another cleanup policy (unless this client may not see its config: a warning says so),
    `Unreachable` when no broker answers in time.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

    asked = f"create topic {name}"
    deadline = time.monotonic() + timeout_s
    with cluster.admin() as admin:
        wanted = NewTopic(name, partitions, replication_factor, config=dict(config))
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
        _check(cluster, name, partitions, config, remaining_s(deadline))
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
    cluster: KafkaCluster, name: str, partitions: int, config: Mapping[str, str], timeout_s: float
) -> None:
    from confluent_kafka import KafkaException

    asked = f"use the existing topic {name}"
    with cluster.admin() as admin:
        try:
            known = admin.list_topics(timeout=timeout_s).topics.get(name)
        except KafkaException as error:
            raise cluster.failure(asked, error.args[0], timeout_s, name) from error
    found = topic_config(cluster, name, timeout_s)
    # A broker that doesn't know a topic yet which was just created has nothing to compare.
    has = partitions if known is None else len(known.partitions)
    if has != partitions:
        raise InvalidInput(
            asked,
            seen=f"{has} partitions instead of {partitions}",
            fix="another job name or id, or delete the topic if nothing needs it",
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
