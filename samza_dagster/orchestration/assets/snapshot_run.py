"""What a run of the snapshot assets does: takes them, and shows tables, figures and pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from samza_dagster.lag import PastError
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.assets.names import (
    CHANGELOG_LAG,
    DATASETS,
    FORECAST,
    LAG_CHECK,
    LOCALITY,
    LOSS,
    READINESS,
    TASKS,
    VIOLATIONS,
    owner_of,
)
from samza_dagster.orchestration.assets.snapshot_store import Rows, SnapshotStore, TakenSnapshot
from samza_dagster.orchestration.assets.yarn_locality import yarn_metadata
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.gallery import Gallery, Hang
from samza_dagster.orchestration.show.map_picture import IN_PLACE, map_svg, natural, shown_map
from samza_dagster.orchestration.show.pictures import in_words, lag_svg
from samza_dagster.orchestration.show.plain_pictures import plain_lag
from samza_dagster.orchestration.show.recovery import heat_svg, loss_svg
from samza_dagster.orchestration.show.tables import table

SHOWN_ROWS = 200
NOWHERE = "(no host)"
SNAPSHOTS_DRAWN = 100
LINES_DRAWN, LINES_KEPT = 5, 40
MOST_IN_PLACE = 300
"""Containers of a map that is read without a click; of more the whole is behind one."""
LAGS = "standby_lags"
# The asset's page has room for some ten columns; the Delta table has them all.
_SHOWN: Mapping[str, Sequence[str]] = {
    LOCALITY: ("processor_id", "host", "mode", "tasks", "reported_at"),
    TASKS: ("task_name", "processor_id", "host", "mode", "changelog_partition"),
    CHANGELOG_LAG: (
        *("processor_id", "mode", "host", "store", "partition", "lag_records", "lag_s"),
        *("status", "came_at", "unknown_because"),
    ),
    READINESS: (
        *("processor_id", "host", "status", "ready_in_s", "ready_soonest_s", "ready_latest_s"),
        *("lag_records", "lag_s", "came_at", "why"),
    ),
    FORECAST: (
        *("processor_id", "host", "is_warm", "restore_s", "restore_soonest_s", "restore_latest_s"),
        *("records", "bytes", "why"),
    ),
    LOSS: (
        *("host", "processor_id", "downtime_s", "downtime_soonest_s", "downtime_latest_s"),
        *("has_standby", "back_on", "why"),
    ),
    VIOLATIONS: ("rule", "processor_id", "other_id", "host", "seen"),
}
# What hurts most comes first; what isn't known before what is.
_PAIN: Mapping[str, str] = {
    CHANGELOG_LAG: "lag_records",
    READINESS: "ready_in_s",
    FORECAST: "restore_s",
    LOSS: "downtime_s",
}


def taken_now(
    context: dg.AssetExecutionContext,
    samza: SamzaClientResource,
    policies: PlacementPolicies,
    store: SnapshotStore,
    spark_config: Mapping[str, Any],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Takes all at one time: none of them is ever newer than the others.

    What its config says is among the run's tags since its launch.
    """
    with errors_as_failures():
        taken = store.take(samza, spark_config)
    for what, why in taken.unread.items():
        context.log.warning(f"{what} isn't known: {why}")
    for job, why in taken.unpublished.items():
        context.log.warning(f"{job}: the readiness of its standbys isn't published: {why}")
    limit = policies.lag_limit
    history = lag_history(context.instance, samza.asset_key(CHANGELOG_LAG))
    history.append((taken.at, standby_lags(taken.rows[CHANGELOG_LAG])))
    for dataset in DATASETS:
        rows = taken.rows[dataset]
        context.log.info(f"{dataset}: {taken.counts[dataset]:,} rows in {taken.paths[dataset]}")
        by_yarn: Mapping[str, Any] = {}
        if dataset == LOCALITY and not samza.is_several:
            by_yarn = yarn_metadata(samza, {row["processor_id"]: row["host"] for row in rows})
        own = Gallery(context.instance, context.run_id)
        newest = Gallery(context.instance, owner_of(samza.prefix, dataset))

        def hang(svg: str, name: str, galleries: tuple[Gallery, ...] = (newest, own)) -> Any:
            return [gallery.hang(svg, name) for gallery in galleries][-1]

        checks = [lag_check(rows, limit, samza.prefix)] if dataset == CHANGELOG_LAG else []
        yield dg.MaterializeResult(
            asset_key=samza.asset_key(dataset),
            metadata={
                **pictures(dataset, rows, history, limit, hang),
                **figures(dataset, rows),
                **(past_error(taken.past) if dataset == READINESS else {}),
                **shown(taken, dataset, several=samza.is_several),
                **by_yarn,
            },
            check_results=checks,
        )
    context.log.info(plain_lag([(_ms(at), max(lags.values(), default=0)) for at, lags in history]))


def shown(taken: TakenSnapshot, dataset: str, *, several: bool = False) -> dict[str, Any]:
    """Its table, what hurts most first, and what the snapshot cost."""
    from samza_dagster.snapshots.schemas import DATASETS as TABLES

    docs = {column.name: column.doc for column in TABLES[dataset]}
    of_job = ("job_name", "job_id") if several else ()
    schema = [dg.TableColumn(c.name, c.type, description=c.doc) for c in TABLES[dataset]]
    by = _PAIN.get(dataset)
    rows = by_pain(taken.rows[dataset], by) if by else taken.rows[dataset]
    return {
        "rows": table(
            [_readable(row, taken.at) for row in rows[:SHOWN_ROWS]],
            (*of_job, *_SHOWN[dataset]),
            docs,
        ),
        "snapshot_time": dg.MetadataValue.timestamp(taken.at),
        "table": dg.PathMetadataValue(taken.paths[dataset]),
        "seconds": dict(taken.seconds),
        "unreadable_records": taken.unreadable,
        "dagster/row_count": taken.counts[dataset],
        "dagster/column_schema": dg.TableSchema(schema),
    }


def figures(dataset: str, rows: Rows) -> dict[str, Any]:
    """The numbers of a dataset that the UI plots over time."""
    if dataset == CHANGELOG_LAG:
        return {
            "max_standby_lag_records": max(_lags(rows, "Standby"), default=0),
            "max_lag_records": max(_lags(rows), default=0),
            "unknown_lags": sum(row["lag_records"] is None for row in rows),
            LAGS: dg.MetadataValue.json(standby_lags(rows)),
        }
    if dataset == READINESS:
        known = [row["ready_in_s"] for row in rows if row["ready_in_s"] is not None]
        return {
            "ready": sum(row["status"] == "ready" for row in rows),
            "not_ready": sum(row["status"] != "ready" for row in rows),
            "max_ready_in_s": max(known, default=0.0),
        }
    if dataset == LOSS:
        known = [row["downtime_s"] for row in rows if row["downtime_s"] is not None]
        return {
            "max_downtime_s": max(known, default=0.0),
            "without_standby": sum(not row["has_standby"] for row in rows),
        }
    return {"violations": len(rows)} if dataset == VIOLATIONS else {}


def past_error(past: PastError | None) -> dict[str, Any]:
    """How good the forecasts of the last day were, of those of which it can be told by now."""
    if past is None:
        return {}
    metadata = {"forecasts_judged": past.judged}
    shares = {
        "forecasts_within_interval": past.within,
        "forecasts_off_by": past.off,
        "forecasts_late": past.late,
    }
    return {**metadata, **{name: round(one, 3) for name, one in shares.items() if one is not None}}


History = Sequence[tuple[datetime, Mapping[str, int]]]
"""The last snapshots: when, and records that each standby was behind."""


def pictures(
    dataset: str, rows: Rows, history: History, lag_limit: int, hang: Hang
) -> dict[str, Any]:
    """What is seen first on the asset's page."""
    if dataset == LOCALITY:
        return map_metadata(rows, hang)
    if dataset == CHANGELOG_LAG:
        return {"lag_over_time": hang(lag_svg(lines(history), limit=lag_limit), "lag_over_time")}
    if dataset == FORECAST and rows:
        return {"minutes_to_recover": hang(heat_svg(rows), "minutes_to_recover")}
    if dataset == LOSS and rows:
        return {"if_a_host_dies": hang(loss_svg(rows), "if_a_host_dies")}
    return {}


def map_metadata(rows: Rows, hang: Hang) -> dict[str, Any]:
    """The map as a picture, and as a table in which a processor is found by its id."""
    cells = host_cells(rows)
    listed = [
        {
            "host": cell.host,
            "containers": len(cell.containers),
            "actives": ", ".join(p for p, active, _ in cell.cells if active),
            "standbys": ", ".join(p for p, active, _ in cell.cells if not active),
        }
        for cell in cells
    ]
    metadata: dict[str, Any] = {"map": hang(map_svg(cells, scales=False, room=IN_PLACE), "map")}
    if len(rows) > MOST_IN_PLACE:
        metadata = {"map": dg.MetadataValue.md(shown_map(cells, has_table=True))}
    return {**metadata, "hosts": table(listed, ("host", "containers", "actives", "standbys"))}


def host_cells(rows: Rows) -> list[HostRow]:
    """Hosts with their containers, from rows of `container_locality`; of several jobs with the job's name."""
    several = len({(row.get("job_name"), row.get("job_id")) for row in rows}) > 1
    here: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for row in rows:
        processor, host = str(row["processor_id"]), row.get("host")
        mode = "standby" if row["mode"] == TaskMode.STANDBY.value else "active"
        name = f"{row['job_name']}/{processor}" if several else processor
        here[str(host or NOWHERE)].append((name, mode, "last-seen" if host else "unknown"))
    return [
        HostRow(
            host, "last-seen", tuple(map(" ".join, sorted(here[host], key=lambda c: natural(c[0]))))
        )
        for host in sorted(here, key=natural)
    ]


def standby_lags(rows: Rows) -> dict[str, int]:
    """Records that each standby is behind in its worst store: those that are furthest, by name."""
    several = len({(row.get("job_name"), row.get("job_id")) for row in rows}) > 1
    found: dict[str, int] = {}
    for row in rows:
        if row["mode"] == "Standby" and row["lag_records"] is not None:
            processor = str(row["processor_id"])
            name = f"{row['job_name']}/{processor}" if several else processor
            found[name] = max(int(row["lag_records"]), found.get(name, 0))
    worst = sorted(found, key=lambda name: (-found[name], natural(name)))[:LINES_KEPT]
    return {name: found[name] for name in sorted(worst, key=natural)}


def lag_history(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> list[tuple[datetime, Mapping[str, int]]]:
    """What the last snapshots have told of the standbys' lag, oldest first."""
    found: list[tuple[datetime, Mapping[str, int]]] = []
    for record in instance.fetch_materializations(key, limit=SNAPSHOTS_DRAWN).records:
        event = record.asset_materialization
        metadata: Mapping[str, Any] = event.metadata if event is not None else {}
        if LAGS in metadata and "snapshot_time" in metadata:
            data: Any = metadata[LAGS].value
            at = datetime.fromtimestamp(float(str(metadata["snapshot_time"].value)), UTC)
            found.append((at, data))
    return sorted(found, key=lambda one: one[0])


def lines(history: History) -> dict[str, list[tuple[int, float]]]:
    """A line for each of the standbys that are furthest behind now, or were."""
    most: dict[str, int] = {}
    for number, (_, lags) in enumerate(history):
        for name, lag in lags.items():
            if number == len(history) - 1 or lag > most.get(name, 0):
                most[name] = max(lag, most.get(name, 0))
    drawn = sorted(most, key=lambda name: (-most[name], natural(name)))[:LINES_DRAWN]
    return {
        name: [(_ms(at), float(lags[name])) for at, lags in history if name in lags]
        for name in sorted(drawn, key=natural)
    }


def by_pain(rows: Rows, column: str) -> Rows:
    """The worst first; what isn't known before what is."""
    return sorted(rows, key=lambda row: (row[column] is not None, -(row[column] or 0)))


def lag_check(rows: Rows, limit: int, prefix: str = "") -> dg.AssetCheckResult:
    """Passes when every standby's lag is known and at most `limit` records."""
    standbys = [row for row in rows if row["mode"] == "Standby"]
    behind = [row for row in standbys if row["lag_records"] is None or row["lag_records"] > limit]
    return dg.AssetCheckResult(
        asset_key=asset_key(prefix, CHANGELOG_LAG),
        check_name=LAG_CHECK,
        passed=not behind,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "lag_limit": limit,
            "max_standby_lag_records": max(_lags(rows, "Standby"), default=0),
            "behind_or_unknown": table(
                behind[:SHOWN_ROWS],
                ("processor_id", "task_name", "store", "host", "lag_records", "unknown_because"),
            ),
        },
    )


def _lags(rows: Rows, mode: str | None = None) -> list[int]:
    return [
        int(row["lag_records"])
        for row in rows
        if row["lag_records"] is not None and (mode is None or row["mode"] == mode)
    ]


def _readable(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Times as a person reads them; seconds without digits that say nothing."""
    return {name: _said(value, now) for name, value in row.items()}


def _said(value: object, now: datetime) -> object:
    if isinstance(value, datetime):
        since = in_words(max(0.0, (now - value).total_seconds()))
        return f"{value:%Y-%m-%d %H:%M:%S} UTC, since {since}"
    return round(value, 1) if isinstance(value, float) else value


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
