"""The datasets of a snapshot as assets: what each holds and shows, what feeds it, when a snapshot is taken.

What their run does is in `snapshot_run`, which only those runs import.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import dagster as dg

from samza_dagster.orchestration.assets.fleet import OVERVIEW
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history.names import GROUP
from samza_dagster.orchestration.names import asset_key, named, shown_at
from samza_dagster.orchestration.tags import SNAPSHOT_OF, job_tags

SNAPSHOT_JOB, TIDY_JOB = "snapshot_assets", "tidy_snapshots"

LOCALITY = "container_locality"
TASKS = "task_locality"
CHANGELOG_LAG = "changelog_lag"
READINESS = "standby_readiness"
FORECAST = "restore_forecast"
LOSS = "host_loss"
VIOLATIONS = "violations"
LAG_CHECK = "standby_lag_within_limit"
TIDY_CRON = "17 3 * * *"


class Dataset(NamedTuple):
    """What a dataset holds, the datasets that feed it, and what its asset's page shows.

    `columns` are those that are shown where the page, which has room for ten, hasn't room for all that the
    Delta table has. Rows are shown by the column `worst_by`, those first in which it is unknown, then the
    largest. `picture` is drawn of each snapshot, and the newest is in the asset's description.
    """

    holds: str
    fed_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
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
        columns=(
            *("processor_id", "mode", "host", "store", "partition", "lag_records", "lag_s"),
            *("status", "came_at", "unknown_because"),
        ),
        worst_by="lag_records",
        picture="lag_over_time",
    ),
    READINESS: Dataset(
        "When each standby is ready, with an interval, and why it isn't.",
        fed_by=(CHANGELOG_LAG,),
        columns=(
            *("processor_id", "host", "status", "ready_in_s", "ready_soonest_s", "ready_latest_s"),
            *("lag_records", "lag_s", "came_at", "why"),
        ),
        worst_by="ready_in_s",
    ),
    FORECAST: Dataset(
        "How long each active would take to process again on each host: warm, or cold.",
        fed_by=(LOCALITY, CHANGELOG_LAG),
        worst_by="restore_s",
        picture="minutes_to_recover",
    ),
    LOSS: Dataset(
        "What it would cost if a host died now: its containers, their downtime, and which of them have"
        " no standby.",
        fed_by=(FORECAST, READINESS),
        worst_by="downtime_s",
        picture="if_a_host_dies",
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
    keys = [named(prefix, name) for name in ("samza", "samza_policies", "snapshot_store")]

    def take(
        context: dg.AssetExecutionContext, config: SaidConfig
    ) -> Iterator[dg.MaterializeResult[Any]]:
        from samza_dagster.orchestration.assets.snapshot_run import taken_now

        samza, policies, store = (getattr(context.resources, key) for key in keys)
        yield from taken_now(context, samza, policies, store)

    fresh = (
        dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=settings.fresh_within_min))
        if settings.running
        else None
    )
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
        check_specs=[
            dg.AssetCheckSpec(
                LAG_CHECK,
                asset=asset_key(prefix, CHANGELOG_LAG),
                description="Every standby's lag is known and within lag_limit.",
            )
        ],
    )(take)


def described(prefix: str, name: str) -> str:
    """What a dataset holds, and its newest picture. Lists of assets show the beginning, which is prose."""
    holds, picture = DATASETS[name].holds, DATASETS[name].picture
    text = f"{holds}\n\nA Delta table; a row is of one snapshot of one Samza job."
    if not picture:
        return text
    said = "No picture of it here yet: it comes with a snapshot"
    return f"{text}\n\n{shown_at(newest_owner(prefix, name), picture, said)}"


def newest_owner(prefix: str, name: str) -> str:
    """The owner of a dataset's newest picture, as `Gallery` has owners."""
    return "-".join(("newest", *asset_key(prefix, name).path))


def snapshot_assets_job(job: str, prefix: str = "", of: str = "") -> Any:
    """`snapshot_assets`: all of them in one run, with one snapshot time; `of` is the value of its tag."""
    taken = [asset_key(prefix, name) for name in (*DATASETS, OVERVIEW)]
    lag = dg.AssetCheckKey(asset_key(prefix, CHANGELOG_LAG), LAG_CHECK)
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, SNAPSHOT_JOB),
        # The checks that a look at the job decides have a run and sensors of their own.
        selection=dg.AssetSelection.assets(*taken) - dg.AssetSelection.checks_for_assets(*taken)
        | dg.AssetSelection.checks(lag),
        executor_def=dg.in_process_executor,
        tags={**job_tags(job, SNAPSHOT_JOB), SNAPSHOT_OF: of},
        description="Takes one snapshot with Spark: where each container and task runs, how far each"
        " replica is behind, and what a host's death would cost; and looks at each job once, for"
        " `fleet_overview`. Changes nothing in a Samza job.",
    )


def tidy_job(job: str, settings: SnapshotStore, prefix: str = "") -> dg.JobDefinition:
    """`tidy_snapshots`: drops whole days that are older than `keep_days`, and joins small files."""
    store = named(prefix, "snapshot_store")

    @dg.op(name=named(prefix, "tidy"), required_resource_keys={store})
    def tidy(context: dg.OpExecutionContext, config: SaidConfig) -> dg.Output[int]:
        dropped = getattr(context.resources, store).tidy(timedelta(days=settings.keep_days))
        metadata = {f"{name}_rows_dropped": rows for name, rows in dropped.items()}
        return dg.Output(sum(dropped.values()), metadata=metadata)

    @dg.job(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, TIDY_JOB),
        executor_def=dg.in_process_executor,
        tags=job_tags(job, TIDY_JOB),
        description="Drops whole days of old snapshots from the tables and joins small files. Changes"
        " nothing in a Samza job.",
    )
    def tidy_snapshots() -> None:
        tidy()

    return tidy_snapshots


def snapshot_schedules(
    settings: SnapshotStore, prefix: str = "", of: str = ""
) -> list[dg.ScheduleDefinition]:
    """`snapshots` takes one by `cron`, unless the last one isn't done; `tidy` makes room once a day.

    `of` as the job's tag has it: no other code location's runs count.
    """
    status = (
        dg.DefaultScheduleStatus.RUNNING if settings.running else dg.DefaultScheduleStatus.STOPPED
    )
    job = named(prefix, SNAPSHOT_JOB)

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, "snapshots"),
        job_name=job,
        cron_schedule=settings.cron,
        default_status=status,
        description=f"Takes a snapshot: {settings.cron} UTC.",
    )
    def snapshots(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        unfinished = [*_UNFINISHED]
        under_way = context.instance.get_runs(
            dg.RunsFilter(job_name=job, statuses=unfinished, tags={SNAPSHOT_OF: of}), limit=1
        )
        if under_way:
            return dg.SkipReason(f"run {under_way[0].run_id} isn't done yet")
        return dg.RunRequest(run_key=context.scheduled_execution_time.isoformat())

    tidy = dg.ScheduleDefinition(
        name=named(prefix, "tidy"),
        job_name=named(prefix, TIDY_JOB),
        cron_schedule=TIDY_CRON,
        default_status=status,
        description=f"Makes room in the tables of snapshots: {TIDY_CRON} UTC.",
    )
    return [snapshots, tidy]


_UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
