"""Creates the topics that a job needs, each once; existing ones are never altered."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
)

from samza_dagster.errors import InvalidInput, UnknownTopic
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s, share_of
from samza_dagster.metadata.replicas import (
    AS_MADE,
    KeptTopic,
    Shortcoming,
    cluster_metadata,
    durable,
    kept_topic,
    replicas_on,
    shortcomings,
    topic_configs,
)

_log = logging.getLogger(__name__)
_PAUSE_S = 0.05
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
"""The config of a topic that keeps the newest record of every key."""

_MEANT = "; or, where it is meant, say so in the job's config (stores.STORE.changelog.kafka.cleanup.policy)"


def retained(retention_ms: int) -> dict[str, str]:
    """Return the config of a topic that drops records by time, and never by size."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": "-1",
    }


def topic_config(cluster: KafkaCluster, name: str, timeout_s: float) -> dict[str, str] | None:
    """Return the topic's config with the brokers' defaults; None: no right to see it.

    Raises `InvalidInput` when there is no such topic, `Unreachable`.
    """
    return topic_configs(cluster, [name], timeout_s)[name]


@dataclass(frozen=True)
class TopicSpec:
    """The specification of a topic to create."""

    name: str
    partitions: int = 1
    # At most one per broker; with three a write waits for two. None is the brokers' default.
    replicas: int | None = None
    config: Mapping[str, str] = field(default_factory=lambda: COMPACTED)
    at_least: bool = False  # more partitions do no harm

    def settings(self, brokers: int) -> tuple[int, dict[str, str]]:
        """Return the replicas on so many brokers (-1: their default), and the whole config."""
        if self.replicas is None:
            return -1, dict(self.config)
        factor = replicas_on(brokers, self.replicas)
        return factor, {**durable(factor), **self.config}

    def creation(self, brokers: int, servers: str) -> str:
        """Return Kafka's command that creates it."""
        factor, config = self.settings(brokers)
        words = [f"kafka-topics.sh --bootstrap-server {servers} --create --topic {self.name}"]
        words.append(f"--partitions {self.partitions}")
        words += [f"--replication-factor {factor}"] if factor > 0 else []
        words += [f"--config {key}={value}" for key, value in sorted(config.items())]
        return " ".join(words)

    def __str__(self) -> str:
        policy = self.config.get("cleanup.policy", "the brokers' cleanup.policy")
        partitions = f"{self.partitions} partition{'' if self.partitions == 1 else 's'}"
        return f"{self.name} ({partitions}, {policy})"


def contradictions(spec: TopicSpec, topic: KeptTopic, servers: str) -> Iterator[Shortcoming]:
    """Yield what makes an existing topic differ from `spec`. Pure."""
    # A broker that doesn't know a topic yet reports no partitions.
    name, wanted = spec.name, spec.partitions
    has = len(topic.partitions) or wanted
    if has < wanted and spec.at_least:
        yield Shortcoming(
            AS_MADE,
            name,
            f"topic {name} has {has} partitions instead of {wanted}: tasks would share one",
            f"kafka-topics.sh --bootstrap-server {servers} --alter --topic {name} "
            f"--partitions {wanted}",
        )
    elif has != wanted and not spec.at_least:
        yield Shortcoming(
            AS_MADE,
            name,
            f"topic {name} has {has} partitions instead of {wanted}",
            f"another job name or id, or delete {name} if nothing needs it",
        )
    policy = spec.config.get("cleanup.policy")
    if policy is None or topic.config is None:
        return
    seen = topic.config["cleanup.policy"]
    # A store with expiring records loses nothing by a compacted changelog.
    is_kept_longer = spec.at_least and seen == "compact"
    if set(seen.split(",")) != set(policy.split(",")) and not is_kept_longer:
        yield Shortcoming(
            AS_MADE,
            name,
            f"topic {name} has cleanup.policy={seen} instead of {policy}",
            f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics "
            f"--entity-name {name} --add-config cleanup.policy={_in_brackets(policy)}"
            + (_MEANT if spec.at_least else ""),
        )


def _in_brackets(value: str) -> str:
    """Return a value with commas in the form of `kafka-configs.sh`."""
    return f"'[{value}]'" if "," in value else value


def ensure_topics(
    cluster: KafkaCluster,
    specs: Sequence[TopicSpec],
    *,
    rehearse: bool = False,
    used_at_once: bool = False,
    timeout_s: float = 30.0,
) -> frozenset[str]:
    """Create the missing topics, all at once, and return their names.

    Several clients may call it at the same time. An existing topic isn't altered; a warning names
    the replicas that it lacks, and the remedy. The call returns when the leader of every created
    partition answers, and with `used_at_once` also that of the first partition of each existing
    topic. With `rehearse` none is created: the brokers report whether they would.

    Raises `InvalidInput` when an existing topic has another number of partitions or another
    cleanup policy, or when this client may not create a topic. Without the right to see a topic's
    config, a warning replaces the check of the policy. Raises `Unreachable` when no broker, or
    not every leader, answers in time.
    """
    asked = f"create topics {', '.join(spec.name for spec in specs)}"
    deadline = time.monotonic() + timeout_s
    metadata = cluster_metadata(cluster, asked, timeout_s)
    # Existing topics need no controller, so brokers without one can still answer.
    absent = [spec for spec in specs if spec.name not in metadata.topics]
    brokers = len(metadata.brokers)
    created = _create(cluster, absent, brokers, rehearse, timeout_s) if absent else frozenset[str]()
    there = [spec for spec in specs if spec.name not in created]
    if there:
        if absent:  # another client may have created some of these meanwhile
            metadata = cluster_metadata(cluster, asked, max(remaining_s(deadline), 1.0))
        _check(cluster, there, metadata, remaining_s(deadline))
    if rehearse:
        return created
    for spec in absent:
        if spec.replicas is not None and brokers < spec.replicas:
            _log.warning(
                "topic %s has %d replicas where %d are wanted: there are no more brokers",
                *(spec.name, brokers, spec.replicas),
            )
    for spec in absent:
        if spec.name in created:
            _log.info("made topic %s", spec)
    for spec in specs if used_at_once else absent:
        waited_for = spec.partitions if spec in absent else 1
        _wait_for_leaders(cluster, spec.name, waited_for, max(remaining_s(deadline), 1.0))
    return created


def ensure_topic(
    cluster: KafkaCluster,
    name: str,
    *,
    partitions: int = 1,
    replicas: int | None = None,
    config: Mapping[str, str] = COMPACTED,
    timeout_s: float = 30.0,
) -> bool:
    """Create one topic with `ensure_topics` for use at once; return whether it was missing."""
    spec = TopicSpec(name, partitions, replicas, config)
    return bool(ensure_topics(cluster, [spec], used_at_once=True, timeout_s=timeout_s))


def _create(
    cluster: KafkaCluster,
    specs: Sequence[TopicSpec],
    brokers: int,
    rehearse: bool,
    timeout_s: float,
) -> frozenset[str]:
    """Return the created topics; with `rehearse` those that could be created."""
    asked = f"create topics {', '.join(spec.name for spec in specs)}"
    created: set[str] = set()
    forbidden: list[str] = []
    with cluster.admin() as admin:
        wanted = [
            NewTopic(spec.name, spec.partitions, factor, config=config)
            for spec in specs
            for factor, config in (spec.settings(brokers),)
        ]
        futures = cast(
            "dict[str, Future[None]]",
            admin.create_topics(  # pyright: ignore[reportUnknownMemberType]
                wanted,
                operation_timeout=timeout_s,
                request_timeout=timeout_s,
                validate_only=rehearse,
            ),
        )
        for name, future in futures.items():
            try:
                future.result(timeout=timeout_s + 1)
            except TimeoutError as error:
                raise cluster.unreachable(asked, timeout_s) from error
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    forbidden.append(name)
                elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                    admin.poll(0)
                    raise cluster.failure(asked, error.args[0], timeout_s, name) from error
            else:
                created.add(name)
    if forbidden:
        raise _no_right_to_create(cluster, forbidden)
    return frozenset(created)


def _no_right_to_create(cluster: KafkaCluster, topics: Sequence[str]) -> InvalidInput:
    named = " ".join(f"--topic {name}" for name in topics)
    return InvalidInput(
        f"create topics {', '.join(topics)}",
        seen="this login has no right to see or to create them",
        fix=f"kafka-acls.sh --bootstrap-server {cluster.bootstrap_servers} --add {named} "
        "--operation Create --operation Describe --allow-principal User:NAME; or Describe alone, and "
        "create them as samza-dagster doctor --config has it",
    )


def _wait_for_leaders(cluster: KafkaCluster, name: str, partitions: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    unread: dict[int, KafkaError] = {}
    consumer = cluster.reader(committed_only=False)
    try:
        while True:
            try:
                unread = _unread(consumer, name, partitions, share_of(remaining_s(deadline)))
            except KafkaException as error:
                # The last request may have had no time left, so keep an earlier error.
                unread = unread or {0: cast("KafkaError", error.args[0])}
            # Not every broker knows a new topic and its leaders yet.
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
    """Return the partitions without a leader; without any, those with a silent leader."""
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


def _configs_of_known(
    cluster: KafkaCluster, names: Sequence[str], timeout_s: float
) -> dict[str, dict[str, str] | None]:
    """Return the configs of topics that one broker knows; another may learn of them later."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return topic_configs(cluster, names, max(remaining_s(deadline), 1.0))
        except UnknownTopic:
            if remaining_s(deadline) <= 0:
                raise
        time.sleep(_PAUSE_S)


def _check(
    cluster: KafkaCluster, specs: Sequence[TopicSpec], metadata: ClusterMetadata, timeout_s: float
) -> None:
    """Raise `InvalidInput` that names all existing topics that contradict their spec."""
    names = [spec.name for spec in specs]
    configs = _configs_of_known(cluster, names, timeout_s)
    servers = cluster.bootstrap_servers
    wrong: list[Shortcoming] = []
    for spec in specs:
        name, config = spec.name, configs[spec.name]
        # A broker that doesn't know a new topic yet has nothing to compare.
        is_known = name in metadata.topics
        topic = kept_topic(name, metadata, config) if is_known else KeptTopic(name, {}, config)
        wrong += contradictions(spec, topic, servers)
        if spec.replicas is not None:
            for each in shortcomings(topic, sorted(metadata.brokers), spec.replicas, servers):
                _log.warning("%s", each)
        if config is None:
            _log.warning(
                "the cleanup policy of %s isn't checked: this client has no right to see it; ALLOW "
                "its principal DESCRIBE_CONFIGS on the topic",
                name,
            )
    if wrong:
        raise InvalidInput(
            f"use the existing topic {', '.join(dict.fromkeys(each.topic for each in wrong))}",
            seen="; ".join(each.seen for each in wrong),
            fix="; ".join(each.fix for each in wrong),
        )
