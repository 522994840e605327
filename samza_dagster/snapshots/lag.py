"""Changelog lag of every replica, from tasks, offsets of the changelogs and applied offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.snapshots.applied import GAUGE
from samza_dagster.snapshots.kafka_source import local_rows
from samza_dagster.snapshots.offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CAME = "gauge: string, came_ms: bigint, first_since: bigint, is_old: boolean"
# Where the changelog ended when the report came, as in `client.replica_lag`.
_END_THEN = (
    "IF(former OR came_ms IS NULL OR coalesce(is_old, false), end_now, "
    "least(end_now, greatest(coalesce(first_since, end_now), applied_offset + 1, beginning_offset)))"
)
# `lag.records_behind` as an expression.
_RECORDS_BEHIND = (
    "CASE WHEN end_offset IS NULL THEN NULL "
    "WHEN beginning_offset >= end_offset THEN 0 "
    "WHEN applied_offset >= end_offset THEN NULL "
    "WHEN applied_offset IS NULL THEN NULL "
    "ELSE end_offset - greatest(applied_offset + 1, beginning_offset) END"
)


def changelog_ends(
    spark: SparkSession,
    ranges: Sequence[OffsetRange],
    without_leader: Iterable[tuple[str, int]] = (),
) -> DataFrame:
    """changelog, partition, beginning_offset, end_offset; both null without a leader, and led 0."""
    rows: list[dict[str, str | int | None]] = [
        {
            "changelog": r.topic,
            "partition": r.partition,
            "beginning_offset": r.start,
            "end_offset": r.end,
            "led": 1,
        }
        for r in ranges
    ]
    rows += [
        {
            "changelog": topic,
            "partition": partition,
            "beginning_offset": None,
            "end_offset": None,
            "led": 0,
        }
        for topic, partition in without_leader
    ]
    fields = (
        "changelog: string, partition: int, beginning_offset: bigint, end_offset: bigint, led: int"
    )
    return local_rows(spark, rows, fields)


def reports_came(
    spark: SparkSession,
    reported: DataFrame,
    changelogs: Sequence[StoreChangelog],
    partitions: Mapping[str, int],
    patience_ms: int,
    first_since: Callable[[Collection[tuple[str, int, int]]], Mapping[tuple[str, int, int], int]],
) -> DataFrame:
    """gauge, came_ms, first_since, is_old: the changelog's first record since a report came.

    `is_old`: it was written to `patience_ms` after the report and later. See docs/decisions/0018.
    """
    at = {
        c.offset_gauge(partition): (c.topic, partition)
        for c in changelogs
        for partition in range(partitions.get(c.topic, 0))
    }
    told = {(row["gauge"], row["came_ms"]) for row in reported.select("gauge", "came_ms").collect()}
    mine = [(gauge, came_ms) for gauge, came_ms in sorted(told) if gauge in at]
    found = first_since(
        {(*at[gauge], came_ms + late_ms) for gauge, came_ms in mine for late_ms in (0, patience_ms)}
    )
    rows: list[dict[str, str | int | None]] = [
        {
            "gauge": gauge,
            "came_ms": came_ms,
            "first_since": found.get((*at[gauge], came_ms)),
            "is_old": (*at[gauge], came_ms + patience_ms) in found,
        }
        for gauge, came_ms in mine
    ]
    return local_rows(spark, rows, _CAME)


def changelog_lag(
    tasks: DataFrame,
    changelogs: Sequence[StoreChangelog],
    ends: DataFrame,
    applied: DataFrame,
    *,
    came: DataFrame | None = None,
    all_observed: bool = True,
) -> DataFrame:
    """One row per store and task; `tasks` is `task_locality`'s frame with `active_task`.

    `came` is of `reports_came`; without it all that was written since a report counts as lag.

    An offset that a standby reported from another host than its processor's tells
    nothing about the replica that is there now: it counts as unknown. `all_observed`: every
    partition was read that tells applied offsets.
    """
    from pyspark.sql.functions import from_json, inline, lit

    literal = lit(json.dumps([asdict(c) for c in changelogs]))
    stores = from_json(literal, "array<struct<store: string, system: string, topic: string>>")
    gauge = GAUGE.format(system="system", topic="changelog", partition="partition")
    unobserved = "no-observation" if all_observed else "no-leader-of-observations"
    replicas = (
        tasks.select("*", inline(stores).alias("store", "system", "changelog"))
        .withColumnRenamed("changelog_partition", "partition")
        .selectExpr("*", f"{gauge} AS gauge")
    )
    if came is None:
        came = local_rows(tasks.sparkSession, [], _CAME)
    known = (
        replicas.join(
            ends.withColumnRenamed("end_offset", "end_now"), ["changelog", "partition"], "left"
        )
        .join(applied, ["task_name", "gauge"], "left")
        .join(came, ["gauge", "came_ms"], "left")
        .selectExpr("*", "coalesce(observed_host <> host, false) AS former")
        .selectExpr("*", f"{_END_THEN} AS end_offset")
    )
    return (
        known.selectExpr(
            "store",
            "system",
            "changelog",
            "partition",
            "task_name",
            "active_task",
            "mode",
            "processor_id",
            "host",
            "beginning_offset",
            "end_offset",
            "end_now - end_offset AS written_since",
            "led",
            "former",
            "IF(former, NULL, applied_offset) AS applied_offset",
            "IF(former, NULL, source) AS applied_source",
            "IF(former, NULL, observed_at_ms) AS observed_at_ms",
        )
        .selectExpr("*", f"{_RECORDS_BEHIND} AS lag_records")
        .selectExpr(
            "*",
            "CASE WHEN lag_records IS NOT NULL THEN NULL WHEN led = 0 THEN 'no-leader' "
            "WHEN end_offset IS NULL THEN 'no-changelog' WHEN former THEN 'former-host' "
            f"WHEN applied_offset IS NULL THEN '{unobserved}' "
            "ELSE 'beyond-end' END AS unknown_because",
        )
    )
