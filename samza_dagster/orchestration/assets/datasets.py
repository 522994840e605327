"""The datasets of a snapshot as assets: what each holds and shows, what feeds it, when a snapshot is taken."""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.assets.fleet import OVERVIEW
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.orchestration.assets.yarn_locality import yarn_metadata
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history import GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.operations.runs import UNDER_WAY
from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.gallery import hanging, shown_at
from samza_dagster.orchestration.show.map_picture import IN_PLACE, map_svg, shown_map
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.tags import SNAPSHOT_OF, job_tags
from samza_dagster.orchestration.text import in_words, natural

if TYPE_CHECKING:
    from samza_dagster.snapshots import FleetSnapshot

SNAPSHOT_JOB = "snapshot_assets"

LOCALITY = "container_locality"
TASKS = "task_locality"
CHANGELOG_LAG = "changelog_lag"
READINESS = "standby_readiness"
FORECAST = "restore_forecast"
LOSS = "host_loss"
VIOLATIONS = "violations"
Rows = Sequence[Mapping[str, Any]]
MOST_ROWS = 20_000
"""Of a dataset, that a run looks at for what it shows; the tables have all."""
SHOWN_ROWS = 200
MOST_IN_PLACE = 300
"""Containers of a map that is read without a click; of more the whole is behind one."""
STANDBY = TaskMode.STANDBY.value


class Dataset(NamedTuple):
    """The content of a dataset, the datasets that feed it, and what its asset's page shows.

    `columns` are shown where the page has no room for all columns of the Delta table; it has room for
    ten. Rows are sorted by the column `worst_by`: unknown values first, then the largest, which is also
    a figure of its own. `picture` is drawn from each snapshot, and the newest is in the asset's
    description.
    """

    holds: str
    fed_by: tuple[str, ...] = ()
    columns: str = ""
    worst_by: str = ""
    picture: str = ""


DATASETS: Mapping[str, Dataset] = {
    LOCALITY: Dataset(
        "Where each container runs, as the coordinator stream tells it; where the address of YARN's"
        " ResourceManager is given, held against that one and the Application Master: each difference is named.",
        picture="map",
    ),
    TASKS: Dataset(
        "Where each task runs, by the processor it is assigned to.",
        fed_by=(LOCALITY,),
    ),
    CHANGELOG_LAG: Dataset(
        "How far each replica of a store is behind its changelog: records, bytes, seconds.",
        fed_by=(TASKS,),
        columns="processor_id mode host store partition lag_records lag_s status came_at unknown_because",
        worst_by="lag_records",
    ),
    READINESS: Dataset(
        "When each standby is ready, with an interval, and why it isn't.",
        fed_by=(CHANGELOG_LAG,),
        columns="processor_id host status ready_in_s ready_soonest_s ready_latest_s lag_records lag_s came_at why",
        worst_by="ready_in_s",
    ),
    FORECAST: Dataset(
        "How long each active would take to process again on each host: warm, or cold.",
        fed_by=(LOCALITY, CHANGELOG_LAG),
        worst_by="restore_s",
    ),
    LOSS: Dataset(
        "What it would cost if a host died now: its containers, their downtime, and which of them have"
        " no standby.",
        fed_by=(FORECAST, READINESS),
        worst_by="downtime_s",
    ),
    VIOLATIONS: Dataset(
        "What breaks a rule: containers that share a host, that have none, or no standby; changelogs that"
        " aren't there, and records that can't be read.",
        fed_by=(LOCALITY, TASKS),
    ),
}


def snapshot_assets(prefix: str = "", settings: SnapshotStore | None = None) -> dg.AssetsDefinition:
    """The assets of a component, taken by one op of all its Samza jobs at one time."""
    settings = settings or SnapshotStore()
    keys = [named(prefix, name) for name in ("samza", "snapshot_store")]

    def take(
        context: dg.AssetExecutionContext, config: SaidConfig
    ) -> Iterator[dg.MaterializeResult[Any]]:
        samza, store = (getattr(context.resources, key) for key in keys)
        yield from taken_now(context, samza, store)

    within = timedelta(minutes=settings.fresh_within_min)
    fresh = dg.FreshnessPolicy.time_window(fail_window=within) if settings.running else None
    return dg.multi_asset(
        name=named(prefix, "take_snapshot"),
        required_resource_keys={*keys},
        specs=[
            dg.AssetSpec(
                asset_key(prefix, name),
                deps=[asset_key(prefix, each) for each in dataset.fed_by],
                group_name=GROUP,
                description=described(prefix, name),
                kinds={"pyspark", "kafka", "deltalake"},
                freshness_policy=fresh,
            )
            for name, dataset in DATASETS.items()
        ],
    )(take)


def described(prefix: str, name: str) -> str:
    """Describe a dataset, with its newest picture. Lists of assets show the beginning, which is prose."""
    holds, picture = DATASETS[name].holds, DATASETS[name].picture
    text = f"{holds}\n\nA Delta table; a row is of one snapshot of one Samza job."
    if not picture:
        return text
    said = "No picture of it here yet: it comes with a snapshot"
    return f"{text}\n\n{shown_at(newest_owner(prefix, name), picture, said)}"


def newest_owner(prefix: str, name: str) -> str:
    """The owner of a dataset's newest picture (`hanging`)."""
    return "-".join(("newest", *asset_key(prefix, name).path))


def snapshot_assets_job(job: str, prefix: str = "", of: str = "") -> Any:
    """`snapshot_assets`: all of them in one run, with one snapshot time; `of` is the value of its tag."""
    taken = [asset_key(prefix, name) for name in (*DATASETS, OVERVIEW)]
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, SNAPSHOT_JOB),
        # The checks that a look at the job decides have a run and sensors of their own.
        selection=dg.AssetSelection.assets(*taken) - dg.AssetSelection.checks_for_assets(*taken),
        executor_def=dg.in_process_executor,
        tags={**job_tags(job, SNAPSHOT_JOB), SNAPSHOT_OF: of},
        description="Takes one snapshot with Spark: where each container and task runs, how far each"
        " replica is behind, and what a host's death would cost; and looks at each job once, for"
        " `fleet_overview`. The first of a day (UTC) drops snapshots older than `keep_days`. Changes nothing in a"
        " Samza job.",
    )


def snapshot_schedules(
    settings: SnapshotStore, prefix: str = "", of: str = ""
) -> list[dg.ScheduleDefinition]:
    """Return `snapshots`, which takes one by `cron` unless the last one isn't done.

    `of` as the job's tag has it: no other code location's runs count.
    """
    status = dg.DefaultScheduleStatus("RUNNING" if settings.running else "STOPPED")
    job = named(prefix, SNAPSHOT_JOB)

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, "snapshots"),
        job_name=job,
        cron_schedule=settings.cron,
        default_status=status,
        description=f"Takes a snapshot: {settings.cron} UTC.",
    )
    def snapshots(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        unfinished = [*UNDER_WAY, dg.DagsterRunStatus.NOT_STARTED]
        under_way = context.instance.get_runs(
            dg.RunsFilter(job_name=job, statuses=unfinished, tags={SNAPSHOT_OF: of}), limit=1
        )
        if under_way:
            return dg.SkipReason(f"run {under_way[0].run_id} isn't done yet")
        return dg.RunRequest(run_key=context.scheduled_execution_time.isoformat())

    return [snapshots]


def taken_now(
    context: dg.AssetExecutionContext,
    samza: SamzaClientResource,
    store: SnapshotStore,
) -> Iterator[dg.MaterializeResult[Any]]:
    """Take all datasets at one time, so that none is ever newer than the others.

    Its config is among the run's tags since its launch.
    """
    with errors_as_failures():
        taken = store.take(samza)
        every = {dataset: taken.rows(dataset, MOST_ROWS) for dataset in DATASETS}
    for what, why in taken.unread.items():
        context.log.warning(f"{what} isn't known: {why}")
    for job, why in taken.unpublished.items():
        context.log.warning(f"{job}: the readiness of its standbys isn't published: {why}")
    dropped: Mapping[str, int] = {}
    if last_taken(context.instance, samza.asset_key(LOCALITY)) < taken.at.date():
        try:
            dropped = store.tidy(timedelta(days=store.keep_days))
        except SamzaDagsterError as error:  # the snapshot is whole without it
            context.log.warning(f"old snapshots stay: {error}")
    # The forecasts name each host that a job knows: also those where none of it runs.
    hosts = {*samza.hosts, *(row["host"] for row in every[FORECAST] if row["host"])}
    cells = host_cells(every[LOCALITY], hosts)
    drawn = map_svg(cells, scales=False, room=IN_PLACE)
    for dataset, rows in every.items():
        metadata: dict[str, Any] = {}
        if dataset in dropped:
            metadata["rows_dropped"] = dropped[dataset]
        if name := DATASETS[dataset].picture:
            for owner in (newest_owner(samza.prefix, dataset), context.run_id):
                metadata[name] = hanging(context.instance, owner)(drawn, name)
        if dataset == LOCALITY:
            metadata |= map_metadata(cells)
        metadata |= figures(dataset, rows) | shown(taken, dataset, rows, several=samza.is_several)
        if dataset == LOCALITY and not samza.is_several:
            metadata |= yarn_metadata(samza, {row["processor_id"]: row["host"] for row in rows})
        context.log.info(f"{dataset}: {taken.counts[dataset]:,} rows in {metadata['table'].value}")
        yield dg.MaterializeResult(asset_key=samza.asset_key(dataset), metadata=metadata)


def shown(
    taken: "FleetSnapshot", dataset: str, rows: Rows, *, several: bool = False
) -> dict[str, Any]:
    """Its table, what hurts most first, and what the snapshot cost."""
    from samza_dagster.snapshots.schemas import TABLES

    docs = {column.name: column.doc for column in TABLES[dataset]}
    schema = [dg.TableColumn(c.name, c.type, description=c.doc) for c in TABLES[dataset]]
    of_job = ("job_name", "job_id") if several else ()
    of_snapshot = {column.name for column in TABLES["snapshots"]}
    columns = DATASETS[dataset].columns.split() or [c for c in docs if c not in of_snapshot]
    by = DATASETS[dataset].worst_by
    if by:  # what isn't known comes before what is
        rows = sorted(rows, key=lambda row: (row[by] is not None, -(row[by] or 0)))
    readable = [
        {name: _readable(value, taken.at) for name, value in row.items()}
        for row in rows[:SHOWN_ROWS]
    ]
    return {
        "rows": table(readable, (*of_job, *columns), docs),
        "snapshot_time": dg.MetadataValue.timestamp(taken.at),
        "table": dg.PathMetadataValue(taken.tables.location(dataset)),
        "seconds": dict(taken.seconds),
        "unreadable_records": taken.unreadable,
        "dagster/row_count": taken.counts[dataset],
        "dagster/column_schema": dg.TableSchema(schema),
    }


def figures(dataset: str, rows: Rows) -> dict[str, Any]:
    """The numbers of a dataset that the UI plots over time; the largest is none where it isn't known of any row."""
    by, found = DATASETS[dataset].worst_by, dict[str, Any]()
    known = [row[by] for row in rows if row[by] is not None] if by else []
    if known or (by and not rows):
        found[f"max_{by}"] = max(known, default=0.0)
    if dataset == CHANGELOG_LAG:
        lags = [row["lag_records"] for row in rows if row["mode"] == STANDBY]
        known = [lag for lag in lags if lag is not None]
        if known or not lags:
            found["max_standby_lag_records"] = max(known, default=0)
        found["unknown_lags"] = sum(row["lag_records"] is None for row in rows)
    elif dataset == READINESS:
        found["ready"] = sum(row["status"] == "ready" for row in rows)
        found["not_ready"] = len(rows) - found["ready"]
    elif dataset == LOSS:
        found["without_standby"] = sum(not row["has_standby"] for row in rows)
    elif dataset == VIOLATIONS:
        found["violations"] = len(rows)
    return found


def map_metadata(cells: Sequence[HostRow]) -> dict[str, Any]:
    """The map as a table in which a processor is found by its id; of many containers also the whole picture."""
    listed = [
        {
            "host": cell.host,
            "containers": len(cell.containers),
            "actives": ", ".join(p for p, active, _ in cell.cells if active),
            "standbys": ", ".join(p for p, active, _ in cell.cells if not active),
        }
        for cell in cells
    ]
    metadata: dict[str, Any] = {
        "hosts": table(listed, ("host", "containers", "actives", "standbys"))
    }
    if sum(len(cell.containers) for cell in cells) > MOST_IN_PLACE:
        metadata["map"] = dg.MetadataValue.md(shown_map(cells, has_table=True))
    return metadata


def host_cells(rows: Rows, hosts: Collection[str] = ()) -> list[HostRow]:
    """Hosts with their containers, from rows of `container_locality`; `hosts` are known beside them."""
    here: dict[str, list[str]] = {host: [] for host in hosts}
    for name, row in sorted(_named(rows), key=lambda one: natural(one[0])):
        mode = "standby" if row["mode"] == STANDBY else "active"
        state = "last-seen" if row["host"] else "unknown"
        here.setdefault(row["host"] or "(no host)", []).append(f"{name} {mode} {state}")
    return [HostRow(host, "last-seen", tuple(here[host])) for host in sorted(here, key=natural)]


def last_taken(instance: dg.DagsterInstance, key: dg.AssetKey) -> date:
    """Return the day (UTC) of the last snapshot, the first of days where there was none."""
    event = instance.get_latest_materialization_event(key)
    made = event.asset_materialization if event is not None else None
    taken: Any = made.metadata.get("snapshot_time") if made is not None else None
    return date.min if taken is None else datetime.fromtimestamp(float(taken.value), UTC).date()


def _named(rows: Rows) -> list[tuple[str, Mapping[str, Any]]]:
    """Rows by the names of their processors; of several jobs with the job's name."""
    several = len({(row["job_name"], row["job_id"]) for row in rows}) > 1
    return [
        (f"{row['job_name']}/{row['processor_id']}" if several else row["processor_id"], row)
        for row in rows
    ]


def _readable(value: object, now: datetime) -> object:
    """Times as a person reads them; seconds without digits that say nothing."""
    if isinstance(value, datetime):
        since = in_words(max(0.0, (now - value).total_seconds()))
        return f"{value:%Y-%m-%d %H:%M:%S} UTC, since {since}"
    return round(value, 1) if isinstance(value, float) else value
