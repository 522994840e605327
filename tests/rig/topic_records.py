"""A topic as a consumer reads it that knows nothing of ours."""

from __future__ import annotations

from samza_dagster.metadata.connection import Connection


def records_of(connection: Connection, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All committed records of a topic of one partition, in order."""
    return [(key, value) for _, key, value in timed_records_of(connection, topic)]


def timed_records_of(connection: Connection, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """The same, each with its time in ms since the epoch, as the topic has it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            **connection.client_config,
            "bootstrap.servers": connection.bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append((message.timestamp()[1], message.key(), message.value()))
    finally:
        consumer.close()
    return found
