"""What all standbys of a fleet reported last, in one pass over a metrics topic that its jobs share.

A topic of a thousand jobs is read once, not a thousand times: no job is asked for by its name. Of
each report the first group of its metrics alone is parsed, where Samza writes the offsets; a report
that has them elsewhere is parsed whole. What is kept until the newest is known is numbers, which Spark
aggregates in place: with the texts it would sort all records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samza_dagster.snapshots.kafka_source import PartitionRange, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK_PREFIX = "TaskName-"
_STANDBY = "Standby-"
_GROUP = "org.apache.samza.container.TaskInstanceMetrics"
_SIDE = "side-inputs-"

_SNAPSHOT = (
    "`header` struct<`job-name`: string, `job-id`: string, `source`: string, `host`: string, "
    "`time`: bigint>, `metrics` map<string, map<string, string>>"
)
# A snapshot up to the end of its first group: `{"header":{…},"metrics":{"…":{…`, closed again.
_BEGINNING = "concat(substring_index(value, '}', 2), '}}}')"
_PARSED = "from_json({text}, '" + _SNAPSHOT + "')"
# Of a store that is its task's side input Samza reports each offset a second time, with a prefix.
_OFFSETS = (
    "map_filter(element_at(snapshot.metrics, '" + _GROUP + "'), (name, at) -> name LIKE '%-offset' AND NOT "
    f"startswith(name, '{_SIDE}'))"
)  # fmt: skip

_REPLICA = ("job_name", "job_id", "task_name", "observed_host")
_PLACE = ("topic", "partition")


@dataclass(frozen=True)
class FleetReports:
    """One pass over some records, cached until `unpersist`.

    `newest`: job_name, job_id, task_name, observed_host, gauge, applied_offset, observed_at_ms, came_ms,
    topic, partition, offset; of the newest report of each standby from each host. `applied_offset` is
    null where the report has the gauge without a number. `unreadable`: topic, partition, offset of each
    record that names a standby's task and is no snapshot.
    """

    newest: DataFrame
    unreadable: DataFrame
    cached: DataFrame

    def unpersist(self) -> None:
        """Frees the cache."""
        self.cached.unpersist()


def read_fleet_reports(
    spark: SparkSession,
    options: Mapping[str, str],
    ranges: Sequence[PartitionRange],
    *,
    splits: int,
) -> FleetReports:
    """Of these ranges of metrics topics, read in at least `splits` parts: a big partition is split."""
    return fleet_reports(read_records(spark, {**options, "minPartitions": str(splits)}, ranges))


def fleet_reports(records: DataFrame) -> FleetReports:
    """Of `read_records`. The newest report is the one written last: a host writes into one partition."""
    from pyspark.sql.functions import expr

    last = ("applied_offset", "observed_at_ms", "came_ms")
    cached = (
        _parsed(records)
        .groupBy(*_PLACE, *_REPLICA, "gauge", "unreadable_offset")
        .agg(
            *(expr(f"max_by({name}, offset) AS {name}") for name in last),
            expr("max(offset) AS offset"),
        )
        .persist()
    )
    of_replica = ", ".join((*_PLACE, *_REPLICA))
    newest = (
        # Not before the cache: pushed below the parser, it would parse each record twice.
        cached.where(f"unreadable_offset IS NULL AND startswith(task_name, '{_STANDBY}')")
        .withColumn("newest_offset", expr(f"max(offset) OVER (PARTITION BY {of_replica})"))
        .where("offset = newest_offset AND gauge IS NOT NULL")
        .select(*_REPLICA, "gauge", *last, *_PLACE, "offset")
    )
    unreadable = cached.where("unreadable_offset IS NOT NULL").select(*_PLACE, "offset")
    return FleetReports(newest, unreadable, cached)


def _parsed(records: DataFrame) -> DataFrame:
    """A row for each offset gauge of a standby's report; without a gauge one, as of an unreadable record."""
    beginning = _PARSED.format(text=_BEGINNING)
    is_whole = (
        f"snapshot.header.source IS NOT NULL AND map_contains_key(snapshot.metrics, '{_GROUP}')"
    )
    return (
        records.where(f"contains(value, '\"{_TASK_PREFIX}{_STANDBY}')")  # spares parsing the rest
        .selectExpr(
            *_PLACE,
            "offset",
            "unix_millis(timestamp) AS came_ms",
            "value",
            f"{beginning} AS snapshot",
        )
        .selectExpr(
            *_PLACE,
            "offset",
            "came_ms",
            f"CASE WHEN {is_whole} THEN snapshot ELSE {_PARSED.format(text='value')} END AS snapshot",
        )
        .selectExpr(
            "*",
            "snapshot.header.source IS NULL OR snapshot.header.`job-name` IS NULL"
            " OR snapshot.metrics IS NULL AS is_unreadable",
        )
        .selectExpr(
            *_PLACE,
            "offset",
            "CASE WHEN is_unreadable THEN offset END AS unreadable_offset",
            "snapshot.header.`job-name` AS job_name",
            "snapshot.header.`job-id` AS job_id",
            f"substr(snapshot.header.source, {len(_TASK_PREFIX) + 1}) AS task_name",
            "snapshot.header.host AS observed_host",
            "snapshot.header.`time` AS observed_at_ms",
            "came_ms",
            f"explode_outer({_OFFSETS}) AS (gauge, at)",
        )
        .selectExpr("*", "try_cast(at AS BIGINT) AS applied_offset")
    )
