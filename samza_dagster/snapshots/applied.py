"""The last changelog offset that each replica is known to hold.

Standbys report it in the job's metrics topic; actives write it into their checkpoint.
Both give: task_name, gauge, applied_offset, observed_at_ms, source, observed_host, came_ms, where
`came_ms` is the time of the record that reported it (null of a checkpoint) and `gauge` is
`<system>-<topic>-<partition>-offset`, Samza's name for it in the metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GAUGE = "concat_ws('-', {system}, {topic}, {partition}, 'offset')"

_TASK_SOURCE = "TaskName-"
_STANDBY_SOURCE = "TaskName-Standby-"
_STATE_BACKEND = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"

_SSP = "`system` string, `stream` string, `partition` string"
_V1 = f"map<string, struct<{_SSP.replace('` ', '`: ')}, `offset`: string>>"
_V2 = "`state-checkpoint-markers` map<string, map<string, string>>"
_MARKER = f"`changelog-ssp` struct<{_SSP.replace('` ', '`: ')}>, `changelog-offset` string"
_HEADER = (
    "`header` struct<`job-name`: string, `job-id`: string, `source`: string, "
    "`host`: string, `time`: bigint>"
)


def checkpointed(records: DataFrame) -> DataFrame:
    """Offsets in the checkpoint topic, the last of each task and changelog partition.

    Sources: Samza's `KafkaStateCheckpointMarker` (`checkpoint-v2`) and
    `KafkaChangelogSSPOffset` (`checkpoint`, `<checkpoint id>:<offset>`). Of two versions
    of a task's checkpoint the one written later counts.
    """
    from pyspark.sql.functions import expr

    last = (
        records.selectExpr(
            "offset",
            "value",
            "unix_millis(timestamp) AS at_ms",
            "from_json(key, '`taskName` string, `type` string') AS k",
        )
        .where("k.`type` IN ('checkpoint', 'checkpoint-v2')")
        .groupBy("k.`taskName`", "k.`type`")
        .agg(expr("max_by(struct(value, at_ms, offset), offset) AS last"))
        .selectExpr("taskName AS task_name", "type", "last.*")
    )
    v1 = (
        last.where("type = 'checkpoint'")
        .selectExpr("*", f"explode(map_values(from_json(value, '{_V1}'))) AS ssp")
        .selectExpr(
            "task_name",
            f"{_GAUGE.format(system='ssp.system', topic='ssp.stream', partition='ssp.partition')} AS gauge",
            "try_cast(substring_index(ssp.offset, ':', -1) AS BIGINT) AS applied_offset",
            "at_ms",
            "'checkpoint-v1' AS source",
            "offset",
        )
    )
    v2 = (
        last.where("type = 'checkpoint-v2'")
        .selectExpr("*", f"from_json(value, '{_V2}').`state-checkpoint-markers` AS markers")
        .selectExpr("*", f"explode(map_values(markers['{_STATE_BACKEND}'])) AS marker")
        .selectExpr("*", f"from_json(marker, '{_MARKER}') AS m")
        .selectExpr("*", "m.`changelog-ssp` AS ssp")
        .selectExpr(
            "task_name",
            f"{_GAUGE.format(system='ssp.system', topic='ssp.stream', partition='ssp.partition')} AS gauge",
            "try_cast(m.`changelog-offset` AS BIGINT) AS applied_offset",
            "at_ms",
            "'checkpoint-v2' AS source",
            "offset",
        )
    )
    return (
        v1.union(v2)
        .where("applied_offset IS NOT NULL")
        .groupBy("task_name", "gauge")
        .agg(expr("max_by(struct(applied_offset, at_ms, source), offset) AS newest"))
        .selectExpr(
            "task_name",
            "gauge",
            "newest.applied_offset",
            "newest.at_ms AS observed_at_ms",
            "newest.source",
            "CAST(NULL AS STRING) AS observed_host",
            "CAST(NULL AS BIGINT) AS came_ms",
        )
    )


def reported(records: DataFrame, job_name: str, job_id: str) -> DataFrame:
    """Offsets that the job's standbys report, from the newest snapshot of each task from each host.

    The newest is the one written last: clocks of two hosts differ, and each may be set back. A host
    writes all of its own into one partition. Source: Samza's `TaskInstanceMetrics.addOffsetGauge`, snapshots of source
    `TaskName-Standby-…`, group ending in `TaskInstanceMetrics`. Other jobs may write
    into the same topic.
    """
    from pyspark.sql.functions import col, expr

    newest = (
        records.where(col("value").contains(_STANDBY_SOURCE))  # spares parsing the rest
        .selectExpr(
            "value",
            "offset",
            "unix_millis(timestamp) AS came_ms",
            f"from_json(value, '{_HEADER}').`header` AS h",
        )
        .where((col("h.job-name") == job_name) & (col("h.job-id") == job_id))
        .where(col("h.source").startswith(_STANDBY_SOURCE))
        .groupBy("h.source", "h.host")
        .agg(expr("max_by(struct(value, came_ms, h.`time`), offset) AS newest"))
        .selectExpr(f"substr(source, {len(_TASK_SOURCE) + 1}) AS task_name", "host", "newest.*")
    )
    groups = "from_json(value, '`metrics` map<string, map<string, string>>').`metrics`"
    return (
        newest.selectExpr(
            "task_name", "host", "time", "came_ms", f"explode({groups}) AS (grp, gauges)"
        )
        .where("grp LIKE '%TaskInstanceMetrics'")
        .selectExpr("task_name", "host", "time", "came_ms", "explode(gauges) AS (gauge, text)")
        .where("gauge LIKE '%-offset'")
        .selectExpr(
            "task_name",
            "gauge",
            "try_cast(text AS BIGINT) AS applied_offset",
            "time AS observed_at_ms",
            "'metrics' AS source",
            "host AS observed_host",
            "came_ms",
        )
        .where("applied_offset IS NOT NULL")
    )
