"""The coordinator stream as tables: config, and where processors and tasks are.

Samza's rule (`CoordinatorStreamStore`): keys are JSON arrays `[version, type, key]`, the
record with the highest offset wins, a null value deletes. A key or value that can't be
read is counted and left out: one bad record must not hide the state of a whole job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SET_CONFIG = "set-config"
_HOST = "set-container-host-assignment"
_TASK_CONTAINER = "set-task-container-assignment"
_TASK_MODE = "set-task-mode-assignment"
_CHANGELOG = "set-changelog"
_TYPES = (SET_CONFIG, _HOST, _TASK_CONTAINER, _TASK_MODE, _CHANGELOG)

_WELL_FORMED = "size(parts) = 3 AND get(parts, 1) IS NOT NULL AND get(parts, 2) IS NOT NULL"


@dataclass(frozen=True)
class JobConfig:
    """The job's config, and how many records of the stream couldn't be read.

    `malformed_keys` counts keys that are no `[version, type, key]`: each of them stops
    Samza's containers from starting. `malformed_values` counts entries without usable values.
    """

    values: dict[str, str] = field(repr=False)
    malformed_keys: int = 0
    malformed_values: int = 0


def live_entries(records: DataFrame) -> DataFrame:
    """The last value of each key, deleted ones left out: type, name, values, written_at_ms.

    `type` is null for a malformed key, `values` null for a malformed value. Only the
    types that snapshots use are kept. `written_at_ms` is the writer's clock, or the
    record's time when the writer gave none.
    """
    from pyspark.sql.functions import expr

    in_types = ", ".join(f"'{name}'" for name in _TYPES)
    return (
        records.selectExpr("*", "from_json(key, 'array<string>') AS parts")
        .selectExpr(
            f"CASE WHEN {_WELL_FORMED} THEN get(parts, 1) END AS type",
            f"CASE WHEN {_WELL_FORMED} THEN get(parts, 2) ELSE key END AS name",
            "value",
            "unix_millis(timestamp) AS at_ms",
            "offset",
        )
        .where(f"type IS NULL OR type IN ({in_types})")
        .coalesce(1)  # the stream has one partition: no shuffle
        .groupBy("type", "name")
        .agg(expr("max_by(struct(value, at_ms), offset) AS last"))
        .where("type IS NULL OR last.value IS NOT NULL")
        .selectExpr(
            "type",
            "name",
            "last.at_ms",
            "from_json(last.value, '`timestamp` bigint, `values` map<string, string>') AS v",
        )
        .selectExpr(
            "type",
            "name",
            "CASE WHEN type IS NOT NULL THEN v.`values` END AS `values`",
            "coalesce(v.`timestamp`, at_ms) AS written_at_ms",
        )
    )


def job_config(entries: DataFrame) -> JobConfig:
    """The config and the counts of what couldn't be read, by one Spark job."""
    rows = (
        entries.where(f"type IS NULL OR `values` IS NULL OR type = '{SET_CONFIG}'")
        .selectExpr("type", "name", "`values`['value'] AS value")
        .collect()
    )
    config: dict[str, str] = {}
    malformed_keys = malformed_values = 0
    for row in rows:
        if row["type"] is None:
            malformed_keys += 1
        elif row["value"] is None:
            malformed_values += 1
        else:
            config[row["name"]] = row["value"]
    return JobConfig(config, malformed_keys, malformed_values)


def hosts(entries: DataFrame) -> DataFrame:
    """processor_id, host, reported_at_ms: what each processor reported last."""
    return entries.where(f"type = '{_HOST}' AND `values`['host'] IS NOT NULL").selectExpr(
        "name AS processor_id", "`values`['host'] AS host", "written_at_ms AS reported_at_ms"
    )


def assigned_tasks(entries: DataFrame) -> DataFrame:
    """task_name, processor_id, mode, changelog_partition of every assigned task.

    Without a recorded mode a task is Active, as Samza takes it. A standby without a
    changelog partition of its own has that of its active.
    """
    from pyspark.sql.functions import expr

    tasks = (
        entries.where(f"type IN ('{_TASK_CONTAINER}', '{_TASK_MODE}', '{_CHANGELOG}')")
        .groupBy("name")
        .agg(
            expr(f"max(`values`['containerId']) FILTER (WHERE type = '{_TASK_CONTAINER}') AS c"),
            expr(f"max(`values`['taskMode']) FILTER (WHERE type = '{_TASK_MODE}') AS m"),
            expr(f"max(`values`['Partition']) FILTER (WHERE type = '{_CHANGELOG}') AS p"),
        )
    )
    own = tasks.where("c IS NOT NULL").selectExpr(
        "name AS task_name",
        f"{ACTIVE_TASK.format(task='name')} AS active_task",
        "c AS processor_id",
        "coalesce(m, 'Active') AS mode",
        "try_cast(p AS INT) AS own_partition",
    )
    return (
        own.join(tasks.selectExpr("name AS active_task", "p AS active_p"), "active_task", "left")
        .withColumn(
            "changelog_partition", expr("coalesce(own_partition, try_cast(active_p AS INT))")
        )
        .drop("own_partition", "active_p")
    )


# `naming.active_task_of` as an expression: `Standby-<active>-<replica>` → `<active>`.
ACTIVE_TASK = (
    "CASE WHEN size(split({task}, '-')) >= 3 AND get(split({task}, '-'), 0) = 'Standby' "
    "THEN get(split({task}, '-'), 1) ELSE {task} END"
)


def container_locality(tasks: DataFrame, reported: DataFrame) -> DataFrame:
    """One row per processor that has tasks or has reported a host; without tasks its id tells its mode."""
    from pyspark.sql.functions import expr

    loads = tasks.groupBy("processor_id").agg(
        expr("count(*) AS tasks"), expr("bool_and(mode = 'Standby') AS all_standby")
    )
    return loads.join(reported, "processor_id", "full").selectExpr(
        "processor_id",
        "host",
        "CASE WHEN coalesce(all_standby, processor_id RLIKE '^.+-[0-9]{1,9}$') THEN 'Standby' "
        "ELSE 'Active' END AS mode",
        "coalesce(tasks, 0) AS tasks",
        "reported_at_ms",
    )


def task_locality(tasks: DataFrame, reported: DataFrame) -> DataFrame:
    """One row per assigned task, with the host of its processor."""
    return tasks.join(reported, "processor_id", "left")
