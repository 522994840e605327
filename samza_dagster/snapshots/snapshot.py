"""One snapshot of one job: where everything is and how far each replica is behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samza_dagster.errors import InvalidInput
from samza_dagster.model.naming import coordinator_stream_topic, require_owner
from samza_dagster.snapshots import applied, coordinator_stream
from samza_dagster.snapshots.job_config import JobStreams, job_streams
from samza_dagster.snapshots.kafka_source import read_records
from samza_dagster.snapshots.lag import changelog_ends, changelog_lag, reports_came
from samza_dagster.snapshots.offsets import OffsetRange, Offsets, Unread
from samza_dagster.snapshots.schemas import DATASETS, Column, select_list
from samza_dagster.snapshots.settings import Connection, spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METRICS_WINDOW_MS = 300_000

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
    ranges: tuple[OffsetRange, ...]
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
    offsets: Offsets | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Snapshot:
    """Computes a job's snapshot from its Kafka topics.

    `snapshot_time_ms` (ms since the epoch) is written into every row; metrics are read
    back from it by `metrics_window_ms`, or by three report intervals if these are longer.
    A standby's lag is what it was when its report came, see `client.replica_lag`. A partition without a leader makes the rows unknown that
    it is about, and says so in them; the coordinator stream's own is needed. Raises
    `InvalidInput` when the stream is another job's or the job has no
    coordinator stream, `Unreachable` when no broker answers.
    """
    asked = Offsets(connection) if offsets is None else offsets
    try:
        return _computed(connection, spark, snapshot_time_ms, metrics_window_ms, asked, clock)
    finally:
        if offsets is None:
            asked.close()


def _computed(
    connection: Connection,
    spark: SparkSession,
    snapshot_time_ms: int,
    metrics_window_ms: int,
    asked: Offsets,
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

    stream = coordinator_stream_topic(connection.job_name, connection.job_id)
    partitions = asked.partitions([stream])
    if stream not in partitions:
        raise InvalidInput(
            f"a snapshot of job {connection.job_name!r}, id {connection.job_id!r}",
            seen=f"no topic {stream} on {connection.bootstrap_servers}",
            fix="the name and id of a job that has been deployed on this Kafka",
        )
    stream_ranges = asked.whole(partitions, committed=True)
    lap("coordinator_offsets")
    entries = coordinator_stream.live_entries(read_records(spark, options, stream_ranges)).persist()
    config = coordinator_stream.job_config(entries)
    require_owner(config.values, connection.job_name, connection.job_id)
    streams = job_streams(config.values, connection.job_name, connection.job_id)
    lap("coordinator_stream")

    window_ms = max(metrics_window_ms, 3 * streams.report_interval_ms)
    topics = asked.partitions([streams.checkpoint_topic, *streams.metrics_topics])
    checkpoint = {t: n for t, n in topics.items() if t == streams.checkpoint_topic}
    metrics = {t: n for t, n in topics.items() if t != streams.checkpoint_topic}
    silent: Unread = {}
    checkpoint_ranges = asked.whole(checkpoint, committed=True, unread=silent)
    metrics_ranges = asked.since(metrics, snapshot_time_ms - window_ms, unread=silent)
    changelogs = asked.partitions(c.topic for c in streams.changelogs)
    without_leader: Unread = {}
    end_ranges = asked.whole(changelogs, committed=False, unread=without_leader)
    lap("other_offsets")

    tasks = coordinator_stream.assigned_tasks(entries)
    hosts = coordinator_stream.hosts(entries)
    located = coordinator_stream.task_locality(tasks, hosts)
    reported = applied.reported(
        read_records(spark, options, metrics_ranges), connection.job_name, connection.job_id
    ).persist()
    known = applied.checkpointed(read_records(spark, options, checkpoint_ranges)).union(reported)
    came = reports_came(
        spark,
        reported,
        streams.changelogs,
        changelogs,
        3 * streams.report_interval_ms,
        asked.first_since,
    )
    lap("reports")
    ends = changelog_ends(spark, end_ranges, without_leader)
    lag = changelog_lag(
        located, streams.changelogs, ends, known, came=came, all_observed=not silent
    )

    def finished(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
        from pyspark.sql.functions import lit

        stamped = frame.withColumns(
            {
                "snapshot_time": lit(snapshot_time_ms),
                "job_name": lit(connection.job_name),
                "job_id": lit(connection.job_id),
                "deployment_id": lit(streams.deployment_id),
            }
        )
        return stamped.selectExpr(*select_list(columns)).persist()

    containers = coordinator_stream.container_locality(tasks, hosts)
    snapshot = Snapshot(
        snapshot_time_ms=snapshot_time_ms,
        job_name=connection.job_name,
        job_id=connection.job_id,
        container_locality=finished(containers, DATASETS["container_locality"]),
        task_locality=finished(located, DATASETS["task_locality"]),
        changelog_lag=finished(lag, DATASETS["changelog_lag"]),
        streams=streams,
        ranges=(*stream_ranges, *checkpoint_ranges, *metrics_ranges),
        malformed_keys=config.malformed_keys,
        malformed_values=config.malformed_values,
        seconds=seconds,
    )
    lap("plans")
    for dataset in DATASETS:
        snapshot.frame(dataset).count()
        lap(dataset)
    entries.unpersist()
    reported.unpersist()
    return snapshot
