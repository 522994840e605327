"""The snapshot assets: an asset for each dataset, what feeds it, and when a snapshot is taken.

What their run does is in `snapshot_run`, which only those runs import.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg

from samza_dagster.orchestration.assets.fleet import OVERVIEW
from samza_dagster.orchestration.assets.names import (
    CHANGELOG_LAG,
    DATASETS,
    FED_BY,
    LAG_CHECK,
    PICTURES,
    owner_of,
)
from samza_dagster.orchestration.assets.snapshot_settings import TIDY_CRON, Snapshots
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history.names import GROUP, HISTORY
from samza_dagster.orchestration.names import asset_key, named, shown_at
from samza_dagster.orchestration.tags import SNAPSHOT_OF, job_tags

SNAPSHOT_JOB, TIDY_JOB = "snapshot_assets", "tidy_snapshots"


def snapshot_assets(prefix: str = "", settings: Snapshots | None = None) -> dg.AssetsDefinition:
    """The assets of a component, taken by one op of all its Samza jobs at one time."""
    settings = settings or Snapshots()
    keys = [named(prefix, name) for name in ("samza", "samza_policies", "snapshot_store")]

    def take(
        context: dg.AssetExecutionContext, config: SaidConfig
    ) -> Iterator[dg.MaterializeResult[Any]]:
        from samza_dagster.orchestration.assets.snapshot_run import taken_now

        spark = getattr(context.resources, named(prefix, "pyspark"))
        samza, policies, store = (getattr(context.resources, key) for key in keys)
        yield from taken_now(context, samza, policies, store, spark.spark_config)

    fresh = (
        dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=settings.fresh_within_min))
        if settings.running
        else None
    )
    return dg.multi_asset(
        name=named(prefix, "take_snapshot"),
        required_resource_keys={*keys, named(prefix, "pyspark")},
        specs=[
            dg.AssetSpec(
                asset_key(prefix, name),
                deps=[asset_key(prefix, each) for each in FED_BY.get(name, ())],
                group_name=GROUP,
                description=described(prefix, name),
                kinds={"pyspark", "kafka", "deltalake"},
                freshness_policy=fresh,
            )
            for name in DATASETS
        ],
        check_specs=[
            dg.AssetCheckSpec(
                LAG_CHECK,
                asset=asset_key(prefix, CHANGELOG_LAG),
                description="Every standby's lag is known and within lag_limit.",
            )
        ],
    )(take)


def described(prefix: str, dataset: str) -> str:
    """What a dataset holds, and its newest picture. Lists of assets show the beginning, which is prose."""
    text = f"{DATASETS[dataset]}\n\nA Delta table; a row is of one snapshot of one Samza job."
    name = PICTURES.get(dataset)
    if name is None:
        return text
    said = "No picture of it here yet: it comes with a snapshot"
    return f"{text}\n\n{shown_at(owner_of(prefix, dataset), name, said)}"


def late_pyspark(settings: Snapshots) -> dg.ResourceDefinition:
    """`dagster_pyspark`'s `LazyPySparkResource`, imported by the run that needs it.

    Whoever gives a component another one has its `spark_config` in the place of this.
    """

    @dg.resource(description="Spark's settings for snapshots; they win over those set here.")
    def pyspark(_context: dg.InitResourceContext) -> Any:
        from dagster_pyspark import LazyPySparkResource

        return LazyPySparkResource(spark_config=dict(settings.spark_config))

    return pyspark


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


def tidy_job(job: str, settings: Snapshots, prefix: str = "") -> dg.JobDefinition:
    """`tidy_snapshots`: drops snapshots that are older than `keep_days`, and joins small files."""
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
        description="Drops old snapshots from the tables and joins small files. Changes nothing in a"
        " Samza job.",
    )
    def tidy_snapshots() -> None:
        tidy()

    return tidy_snapshots


def snapshot_schedules(
    settings: Snapshots, prefix: str = "", of: str = ""
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
