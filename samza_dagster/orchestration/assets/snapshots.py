"""Assets of group `samza`: where containers and tasks run, how far replicas are behind."""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from samza_dagster.orchestration.assets.snapshot_store import Rows, SnapshotStore, TakenSnapshot
from samza_dagster.orchestration.assets.yarn_locality import yarn_metadata
from samza_dagster.orchestration.choices import choice_of_a_job
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.follow import errors_as_failures
from samza_dagster.orchestration.history.names import GROUP, HISTORY
from samza_dagster.orchestration.moves import HostRow
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.map_picture import natural, shown_map
from samza_dagster.orchestration.show.pictures import lag_svg, picture
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.tags import is_of_all, job_tags

LOCALITY = "container_locality"
CHANGELOG_LAG = "changelog_lag"
_KEPT = "\n\nA Delta table: `snapshot_time` tells one snapshot from another."
DATASETS: Mapping[str, str] = {
    LOCALITY: "Where each container runs, as the coordinator stream tells it; where the address of"
    " YARN's ResourceManager is given, held against that one and the Application Master: each"
    f" difference is named.{_KEPT}",
    "task_locality": f"Where each task runs, by the processor it is assigned to.{_KEPT}",
    CHANGELOG_LAG: f"How many records each replica of a store is behind its changelog.{_KEPT}",
}
LAG_CHECK = "standby_lag_within_limit"
SHOWN_ROWS = 200
NOWHERE = "(no host)"
SNAPSHOTS_DRAWN = 100
# The asset's page has room for some ten columns; the table has them all.
_SHOWN: Mapping[str, Sequence[str]] = {
    LOCALITY: ("processor_id", "host", "mode", "tasks", "reported_at"),
    "task_locality": ("task_name", "processor_id", "host", "mode", "changelog_partition"),
    CHANGELOG_LAG: (
        *("processor_id", "mode", "host", "store", "partition", "lag_records"),
        *("unknown_because", "applied_offset", "end_offset", "applied_source"),
    ),
}


def snapshot_assets(
    prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetsDefinition:
    """The three assets of a component, taken by one op; `partitions` are its jobs if it has several."""
    keys = [named(prefix, name) for name in ("samza", "samza_policies", "snapshot_store")]

    def take(
        context: dg.AssetExecutionContext, config: SaidConfig
    ) -> Iterator[dg.MaterializeResult[Any]]:
        yield from _take_snapshot(context, *(getattr(context.resources, key) for key in keys))

    return dg.multi_asset(
        name=named(prefix, "take_snapshot"),
        required_resource_keys=set(keys),
        specs=[
            dg.AssetSpec(
                asset_key(prefix, name),
                group_name=GROUP,
                description=text,
                kinds={"pyspark", "kafka"},
                partitions_def=partitions,
            )
            for name, text in DATASETS.items()
        ],
        check_specs=[
            check_spec(
                LAG_CHECK,
                asset_key(prefix, CHANGELOG_LAG),
                "Every standby's lag is known and within lag_limit.",
                partitions,
            )
        ],
    )(take)


def check_spec(
    name: str, asset: dg.AssetKey, text: str, partitions: dg.PartitionsDefinition[str] | None
) -> dg.AssetCheckSpec:
    """A check of an asset; of several jobs each has its own results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # Dagster's word on partitions of checks
        return dg.AssetCheckSpec(name, asset=asset, description=text, partitions_def=partitions)


def _take_snapshot(
    context: dg.AssetExecutionContext,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
    snapshot_store: SnapshotStore,
) -> Iterator[dg.MaterializeResult[Any]]:
    """Takes the three at one time: none of them is ever newer than the others.

    What its config says is among the run's tags since its launch.
    """
    with errors_as_failures():
        taken = snapshot_store.take(samza)
    for dataset in DATASETS:
        context.log.info(f"{dataset}: {len(taken.rows[dataset])} rows in {taken.paths[dataset]}")
        yield dg.MaterializeResult(
            asset_key=samza.asset_key(dataset),
            metadata={
                **snapshot_metadata(taken, dataset),
                **(
                    yarn_metadata(samza, _hosts(taken.rows[dataset])) if dataset == LOCALITY else {}
                ),
                **snapshot_pictures(
                    context.instance,
                    taken,
                    dataset,
                    samza_policies.lag_limit,
                    samza.records_of(dataset),
                ),
            },
            check_results=[lag_check(taken.rows[dataset], samza_policies.lag_limit, samza.prefix)]
            if dataset == CHANGELOG_LAG
            else [],
        )


def snapshot_metadata(taken: TakenSnapshot, dataset: str) -> dict[str, Any]:
    """What the UI shows of a dataset; its numbers are plotted over time."""
    rows = taken.rows[dataset]
    lag: dict[str, Any] = {}
    if dataset == CHANGELOG_LAG:
        lag = {
            "max_standby_lag_records": max(_lags(rows, "Standby"), default=0),
            "max_lag_records": max(_lags(rows), default=0),
            "unknown_lags": sum(row["lag_records"] is None for row in rows),
        }
    return {
        **lag,
        "rows": table(rows[:SHOWN_ROWS], _SHOWN[dataset], told_columns(dataset)),
        "snapshot_time": dg.MetadataValue.timestamp(taken.snapshot_ms / 1000),
        "path": dg.PathMetadataValue(taken.paths[dataset]),
        "seconds": dict(taken.seconds),
        "unreadable_records": taken.unreadable_records,
        "dagster/row_count": len(rows),
    }


def snapshot_pictures(
    instance: dg.DagsterInstance,
    taken: TakenSnapshot,
    dataset: str,
    lag_limit: int,
    recorded: dg.AssetKey | dg.AssetRecordsFilter,
) -> dict[str, Any]:
    """The map of hosts and containers, or lag over the last snapshots."""
    rows = taken.rows[dataset]
    if dataset == LOCALITY:
        return map_metadata_of_rows(rows)
    if dataset == CHANGELOG_LAG:
        now = max(_lags(rows, "Standby"), default=0)
        return lag_picture(instance, recorded, (taken.snapshot_ms, now), lag_limit)
    return {}


def host_cells(rows: Sequence[Mapping[str, Any]]) -> list[HostRow]:
    """Hosts with their containers, from rows of `container_locality`."""
    here: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for row in rows:
        processor, host = str(row["processor_id"]), row.get("host")
        state = "last-seen" if host else "unknown"
        here[str(host or NOWHERE)].append(
            (processor, "standby" if "-" in processor else "active", state)
        )
    return [
        HostRow(
            host, "last-seen", tuple(map(" ".join, sorted(here[host], key=lambda c: _order(c[0]))))
        )
        for host in sorted(here, key=natural)
    ]


def map_metadata_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    return {
        "map": dg.MetadataValue.md(shown_map(cells, has_table=True)),
        "hosts": table(listed, ("host", "containers", "actives", "standbys")),
    }


def lag_picture(
    instance: dg.DagsterInstance,
    recorded: dg.AssetKey | dg.AssetRecordsFilter,
    now: tuple[int, int],
    limit: int,
) -> dict[str, Any]:
    """The largest lag of a standby at each of the last snapshots, with this one (ms, records)."""
    records = instance.fetch_materializations(recorded, limit=SNAPSHOTS_DRAWN).records
    line: list[tuple[int, float]] = [now]
    for record in records:
        event = record.asset_materialization
        lag = event.metadata.get("max_standby_lag_records") if event is not None else None
        at = event.metadata.get("snapshot_time") if event is not None else None
        if lag is not None and at is not None and isinstance(lag.value, int):
            line.append((int(float(str(at.value)) * 1000), float(lag.value)))
    drawn = lag_svg({"furthest standby": sorted(line)}, limit=limit)
    return {"lag_over_time": dg.MetadataValue.md(picture(drawn, "lag over time"))}


def _order(processor_id: str) -> tuple[int, str]:
    head = processor_id.partition("-")[0]
    return (int(head) if head.isdigit() else 0, processor_id)


def _hosts(rows: Rows) -> dict[str, str | None]:
    return {row["processor_id"]: row["host"] for row in rows}


def told_columns(dataset: str) -> Mapping[str, str]:
    """What each column of a dataset's table holds and in which unit."""
    from samza_dagster.snapshots.schemas import DATASETS as TABLES

    return {column.name: column.doc for column in TABLES[dataset]}


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
                behind,
                ("processor_id", "task_name", "store", "host", "lag_records", "unknown_because"),
            ),
        },
    )


def _lags(rows: Sequence[Mapping[str, Any]], mode: str | None = None) -> list[int]:
    return [
        int(row["lag_records"])
        for row in rows
        if row["lag_records"] is not None and (mode is None or row["mode"] == mode)
    ]


def placement_history_spec(
    job: str, prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetSpec:
    """The asset whose events the sensor `placement_responses` writes."""
    return dg.AssetSpec(
        asset_key(prefix, HISTORY),
        partitions_def=partitions,
        group_name=GROUP,
        description=f"Every outcome of a placement request of {job}, whoever asked.",
        kinds={"kafka"},
    )


def snapshot_assets_job(job: str, prefix: str = "") -> Any:
    """`snapshot_assets`: the three in one run, with one Spark session and one snapshot time."""
    taken = [asset_key(prefix, name) for name in DATASETS]
    lag = dg.AssetCheckKey(asset_key(prefix, CHANGELOG_LAG), LAG_CHECK)
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, "snapshot_assets"),
        # The checks that a look at the job decides have a run and sensors of their own.
        selection=dg.AssetSelection.assets(*taken) - dg.AssetSelection.checks_for_assets(*taken)
        | dg.AssetSelection.checks(lag),
        executor_def=dg.in_process_executor,
        config=choice_of_a_job("snapshot_assets", job) if is_of_all(job) else None,
        tags=job_tags(job, "snapshot_assets"),
        description="Takes one snapshot with Spark: where each container and task runs, and how"
        " far each replica is behind its changelog. Changes nothing in the Samza job.",
    )
