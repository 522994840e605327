"""The topic of a job that has the newest readiness of each of its standbys."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.record_writer import RecordWriter
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import lag_topic

_ANSWER_S = 10.0


def publish(connection: Connection, records: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Writes keys and values to a job's lag topic, made if it isn't there; returns how many.

    A None for a value removes what is known of that standby. Raises `Unreachable` when no broker
    answers, `Refused` without the right to write there: those before it are written then.
    """
    name = lag_topic(connection.job_name, connection.job_id)
    cluster = KafkaCluster.of(connection)
    ensure_topic(cluster, name, timeout_s=_ANSWER_S)
    end = TopicEnd(cluster, name)
    writer = RecordWriter(cluster, name, end, timeout_s=_ANSWER_S)
    try:
        number = 0
        for key, value in records:
            writer.write(f"publish the readiness of {key.decode(errors='replace')}", key, value)
            number += 1
        return number
    finally:
        writer.close()
        end.close()
