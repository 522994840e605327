"""The thin edge to librdkafka: silent clients, with loose types here and only here.

The caller ends each client, by `with` or `close`. The destructor must not: it runs Python's
signal handlers and drops their exceptions (confluent_kafka 2.16, `CallState_end` in
`Producer_dealloc`), so that a Ctrl-C is lost or ends as a SystemError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from samza_dagster.errors import Unreachable
from samza_dagster.interrupts import interrupts_deferred


def _settings(bootstrap_servers: str, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "error_cb": _ignore,  # without one librdkafka writes to standard error
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        **more,
    }


def _ignore(_: object) -> None:
    return


def admin(bootstrap_servers: str, **more: Any) -> Any:
    """Return an `AdminClient`, for a `with`."""
    with interrupts_deferred():
        return AdminClient(_settings(bootstrap_servers, more))


def producer(bootstrap_servers: str, more: Mapping[str, Any] | None = None) -> Any:
    """Return an idempotent `Producer`, for a `close`: its `with` has the destructor's fault."""
    with interrupts_deferred():
        return Producer(_settings(bootstrap_servers, {"enable.idempotence": True, **(more or {})}))


def consumer(bootstrap_servers: str, more: Mapping[str, Any] | None = None) -> Any:
    """Return a `Consumer` for assigned partitions: it joins no group and commits nothing."""
    own = {
        "group.id": "samza-dagster-sandbox",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 100,
        **(more or {}),
    }
    with interrupts_deferred():
        return Consumer(_settings(bootstrap_servers, own))


def partition(topic: str, number: int, offset: int | None = None) -> Any:
    """Return a `TopicPartition`, without an offset when None."""
    return (
        TopicPartition(topic, number) if offset is None else TopicPartition(topic, number, offset)
    )


def partition_counts(client: Any, topics: Sequence[str], timeout_s: float = 10.0) -> dict[str, int]:
    """Return partitions per topic, 0 for a missing one; raise `Unreachable`."""
    try:
        known = client.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise Unreachable(
            "the broker", seen=str(error.args[0]), fix="is the sandbox up?"
        ) from error
    return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}


def end_offsets(client: Any, topic: str, timeout_s: float = 15.0) -> tuple[int, ...]:
    """Return the end offset of each partition, by number; `client` is a consumer.

    Raises `Unreachable` after `timeout_s`.
    """
    # A broker that has just started knows its topics before it leads them, so ask again then.
    passing = (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    deadline = time.monotonic() + timeout_s
    count = partition_counts(client, [topic], timeout_s)[topic]
    while True:
        try:
            return tuple(
                int(client.get_watermark_offsets(partition(topic, number), timeout=timeout_s)[1])
                for number in range(count)
            )
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise Unreachable(f"the end of {topic}", seen=str(error.args[0])) from error
            partition_counts(client, [topic], timeout_s)  # refreshes the leaders
            time.sleep(0.1)
