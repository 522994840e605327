"""The topics that have the newest readiness of each standby, one of each job; the brokers date their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message

from samza_dagster.errors import InvalidInput, SamzaDagsterError
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics
from samza_dagster.metadata.kafka_client import KafkaCluster, end_producer
from samza_dagster.metadata.topics import COMPACTED, ensure_topic
from samza_dagster.model.naming import lag_topic

JobId = tuple[str, str]
_ANSWER_S = 10.0
_MADE_AT_ONCE = 8
_AT_ONCE = 1_000
"""Records that are on their way together: the client holds 100,000."""
_CONFIG = {**COMPACTED, "message.timestamp.type": "LogAppendTime"}
_NO_STANDBY = b"time"


def publish_fleet(
    connection: Connection,
    jobs: Mapping[JobId, Collection[tuple[bytes, bytes | None]]],
) -> dict[JobId, SamzaDagsterError]:
    """Writes keys and values to the lag topics of jobs on one Kafka cluster; each is made if it isn't there.

    A None for a value removes what is known of that standby. Returns what couldn't be written, by job,
    and why: some of that job's may be written then. Raises `Unreachable` when no broker answers.
    """
    cluster = KafkaCluster(connection.bootstrap_servers, connection.client_config)
    names = {job: lag_topic(*job) for job in jobs}
    with closing(KafkaJobTopics(cluster)) as topics:
        missing = set(names.values()) - topics.existing(set(names.values()))
    failed = _made(cluster, {job: name for job, name in names.items() if name in missing})

    def done(job: JobId, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            asked = f"publish the readiness of the standbys of {'/'.join(job)}"
            failed.setdefault(job, cluster.failure(asked, error, _ANSWER_S, names[job]))

    # There is one record for a standby: to write it twice does no harm.
    producer = cluster.producer(timeout_ms=round(1000 * _ANSWER_S), is_idempotent=False)
    try:
        messages = [(job, *one) for job, its in jobs.items() if job not in failed for one in its]
        for first in range(0, len(messages), _AT_ONCE):
            for job, key, value in messages[first : first + _AT_ONCE]:
                producer.produce(names[job], value, key, 0, on_delivery=partial(done, job))
            # Each is acknowledged or given up by then; a little later the client is stuck.
            if producer.flush(_ANSWER_S + 1):
                raise cluster.unreachable("publish the readiness of standbys", _ANSWER_S)
    except KafkaException as error:
        raise cluster.failure(
            "publish the readiness of standbys", error.args[0], _ANSWER_S
        ) from error
    finally:
        end_producer(producer)
    return failed


def brokers_time_ms(connection: Connection) -> int:
    """Return the brokers' time, in ms since the epoch: that of a record that a job's lag topic gets now.

    The record deletes what nobody has written. Raises `Unreachable` when no broker answers,
    `InvalidInput` without the right to write there, or where producers date the topic's records.
    """
    cluster = KafkaCluster.of(connection)
    job = connection.job_name, connection.job_id
    topic, asked = lag_topic(*job), f"ask the brokers for the time, by topic {lag_topic(*job)}"
    with closing(KafkaJobTopics(cluster)) as topics:
        if topic not in topics.existing({topic}):
            ensure_topic(cluster, topic, config=_CONFIG, timeout_s=_ANSWER_S)
    written: list[tuple[KafkaError | None, Message]] = []

    def done(error: KafkaError | None, message: Message) -> None:
        written.append((error, message))

    producer = cluster.producer(timeout_ms=round(1000 * _ANSWER_S), is_idempotent=False)
    try:
        producer.produce(topic, None, _NO_STANDBY, 0, on_delivery=done)
        producer.flush(_ANSWER_S + 1)
    finally:
        end_producer(producer)
    if not written:
        raise cluster.unreachable(asked, _ANSWER_S)
    error, message = written[0]
    if error is not None:
        raise cluster.failure(asked, error, _ANSWER_S, topic)
    kind, at_ms = message.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        raise InvalidInput(
            asked,
            seen="its producers date the records",
            fix=f"set message.timestamp.type=LogAppendTime on {topic}",
        )
    return at_ms


def _made(cluster: KafkaCluster, names: Mapping[JobId, str]) -> dict[JobId, SamzaDagsterError]:
    failed: dict[JobId, SamzaDagsterError] = {}

    def make(job: JobId) -> None:
        try:
            ensure_topic(cluster, names[job], config=_CONFIG, timeout_s=_ANSWER_S)
        except SamzaDagsterError as error:
            failed[job] = error

    with ThreadPoolExecutor(_MADE_AT_ONCE) as pool:
        list(pool.map(make, names))
    return failed
