"""One snapshot of one job: where everything is and how far each replica is behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.naming import require_owner
from samza_dagster.snapshots import applied, coordinator_stream
from samza_dagster.snapshots.group import group_tables
from samza_dagster.snapshots.job_config import JobStreams, job_streams
from samza_dagster.snapshots.kafka_source import PartitionRange, local_rows, read_records
from samza_dagster.snapshots.lag import changelog_lag
from samza_dagster.snapshots.schemas import DATASETS, ddl, select_list
from samza_dagster.snapshots.settings import librdkafka_config, spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METRICS_WINDOW_MS = 300_000
_STAMPED = ("snapshot_time", "job_name", "job_id", "deployment_id")
_LAG_FIELDS = ddl(
    tuple(column for column in DATASETS["changelog_lag"] if column.name not in _STAMPED),
    separator=": ",
)

_SORT_KEYS = {
    "container_locality": ("processor_id",),
    "task_locality": ("task_name",),
    "changelog_lag": ("store", "partition", "task_name"),
}


@dataclass(frozen=True)
class Snapshot:
    """The three datasets of one job at one time; columns as in `schemas.DATASETS`.

    The frames are cached; `unpersist` frees them. `ranges` are the offsets that were
    read. `malformed_keys` and `malformed_values` count unreadable records of the
    coordinator stream. `seconds` says how long each part took.
    """

    snapshot_time_ms: int
    job_name: str
    job_id: str
    container_locality: DataFrame
    task_locality: DataFrame
    changelog_lag: DataFrame
    streams: JobStreams
    ranges: tuple[PartitionRange, ...]
    malformed_keys: int
    malformed_values: int
    seconds: dict[str, float]

    def frame(self, dataset: str) -> DataFrame:
        """A dataset by its name."""
        frames: dict[str, DataFrame] = {
            "container_locality": self.container_locality,
            "task_locality": self.task_locality,
            "changelog_lag": self.changelog_lag,
        }
        return frames[dataset]

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        """A dataset as plain dicts, in a stable order."""
        collected = [row.asDict() for row in self.frame(dataset).collect()]
        keys = _SORT_KEYS[dataset]
        return sorted(collected, key=lambda row: tuple((row[k] is None, row[k]) for k in keys))

    def unpersist(self) -> None:
        """Frees the cached frames."""
        for dataset in DATASETS:
            self.frame(dataset).unpersist()


def compute_snapshot(
    connection: Connection,
    spark: SparkSession,
    snapshot_time_ms: int,
    *,
    metrics_window_ms: int = METRICS_WINDOW_MS,
    clock: Callable[[], float] = time.monotonic,
) -> Snapshot:
    """Computes a job's snapshot from its Kafka topics.

    `snapshot_time_ms` (ms since the epoch) is written into every row; metrics are read
    back from it by `metrics_window_ms`, or by three report intervals if these are longer.
    A standby's lag is what it was when its report came, see `lag.behind`. A partition without a
    leader makes the rows unknown that it is about, and says so in them; the coordinator stream's
    own is needed. Raises `InvalidInput` when the stream is another job's or the job has no
    coordinator stream, `Unreachable` when no broker answers.
    """
    # Offsets are asked of the brokers, not of Spark, which can't tell an end without reading
    # records; and the last record doesn't tell it, since transaction markers take offsets.
    cluster = KafkaCluster(connection.bootstrap_servers, librdkafka_config(connection))
    with closing(KafkaJobTopics(cluster)) as topics:
        return _computed(connection, spark, snapshot_time_ms, metrics_window_ms, topics, clock)


def _computed(
    connection: Connection,
    spark: SparkSession,
    snapshot_time_ms: int,
    metrics_window_ms: int,
    topics: KafkaJobTopics,
    clock: Callable[[], float],
) -> Snapshot:
    options = spark_options(connection)
    seconds: dict[str, float] = {}
    started = clock()

    def lap(part: str) -> None:
        nonlocal started
        now = clock()
        seconds[part] = round(now - started, 3)
        started = now

    def finished(frame: DataFrame, dataset: str) -> DataFrame:
        from pyspark.sql.functions import lit

        stamped = frame.withColumns(
            {
                "snapshot_time": lit(snapshot_time_ms),
                "job_name": lit(connection.job_name),
                "job_id": lit(connection.job_id),
                "deployment_id": lit(streams.deployment_id),
            }
        )
        return stamped.selectExpr(*select_list(DATASETS[dataset])).persist()

    stream_ranges: list[PartitionRange] = []
    entries: DataFrame | None = None
    if connection.zookeeper:
        config, tasks, hosts = group_tables(spark, connection)
    else:
        stream_ranges = _stream_ranges(connection, topics)
        lap("coordinator_offsets")
        records = read_records(spark, options, stream_ranges)
        entries = coordinator_stream.live_entries(records).persist()
        config = coordinator_stream.job_config(entries)
        require_owner(config.values, connection.job_name, connection.job_id)
        tasks = coordinator_stream.assigned_tasks(entries)
        hosts = coordinator_stream.hosts(entries)
    streams = job_streams(config.values, connection.job_name, connection.job_id)
    lap("coordinator_stream")

    patience_ms = 3 * streams.report_interval_ms
    read = topics.offset_ranges(
        {streams.checkpoint_topic, *streams.metrics_topics}, committed_only=True
    )
    since_ms = snapshot_time_ms - max(metrics_window_ms, patience_ms)
    metrics = {at: span for at, span in read.items() if at[0] in streams.metrics_topics}
    checkpoint_ranges = _whole({at: span for at, span in read.items() if at not in metrics})
    metrics_ranges = _since(_whole(metrics), since_ms, topics)
    changelogs = topics.offset_ranges({store.topic for store in streams.changelogs})
    lap("other_offsets")

    containers = finished(coordinator_stream.container_locality(tasks, hosts), "container_locality")
    containers.count()
    lap("container_locality")
    located = finished(coordinator_stream.task_locality(tasks, hosts), "task_locality")
    task_rows = located.collect()
    lap("task_locality")
    known = applied.checkpointed(read_records(spark, options, checkpoint_ranges)).union(
        applied.reported(
            read_records(spark, options, metrics_ranges), connection.job_name, connection.job_id
        )
    )
    known_rows = known.collect()
    lap("reports")
    lags = changelog_lag(
        [row.asDict() for row in task_rows],
        streams.changelogs,
        changelogs,
        [row.asDict() for row in known_rows],
        topics.offsets_since,
        patience_ms=patience_ms,
        all_observed=not any(isinstance(span, Unreachable) for span in read.values()),
    )
    lag = finished(local_rows(spark, lags, _LAG_FIELDS), "changelog_lag")
    lag.count()
    lap("changelog_lag")
    if entries is not None:
        entries.unpersist()
    return Snapshot(
        snapshot_time_ms=snapshot_time_ms,
        job_name=connection.job_name,
        job_id=connection.job_id,
        container_locality=containers,
        task_locality=located,
        changelog_lag=lag,
        streams=streams,
        ranges=(*stream_ranges, *checkpoint_ranges, *metrics_ranges),
        malformed_keys=config.malformed_keys,
        malformed_values=config.malformed_values,
        seconds=seconds,
    )


def _stream_ranges(connection: Connection, topics: KafkaJobTopics) -> list[PartitionRange]:
    """Of the coordinator stream, which there is no snapshot without."""
    stream = connection.coordinator_stream_topic
    ranges = topics.offset_ranges({stream}, committed_only=True)
    for span in ranges.values():
        if isinstance(span, Unreachable):
            raise span
    if not ranges:
        raise InvalidInput(
            f"a snapshot of job {connection.job_name!r}, id {connection.job_id!r}",
            seen=f"no topic {stream} on {connection.bootstrap_servers}",
            fix="the name and id of a job that has been deployed on this Kafka",
        )
    return _whole(ranges)


def _whole(ranges: Ranges) -> list[PartitionRange]:
    """Those that can be read, from beginning to end."""
    return sorted(
        PartitionRange(*at, span.start, span.end)
        for at, span in ranges.items()
        if isinstance(span, OffsetRange)
    )


def _since(
    ranges: Iterable[PartitionRange], since_ms: int, topics: KafkaJobTopics
) -> list[PartitionRange]:
    """Each from its first record of a time or a later one; none is as new: from its end."""
    asked = {(each.topic, each.partition, since_ms): each for each in ranges}
    first = topics.offsets_since(asked)
    return [
        replace(each, start=min(first.get(at, each.end), each.end)) for at, each in asked.items()
    ]
