"""The component's `snapshots`: when one is taken, where the tables are, and by which Spark."""

# No `from __future__ import annotations`: Dagster reads these annotations as types.

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.bounds import Within
from samza_dagster.orchestration.resource import SamzaClientResource, settings_with_secrets

if TYPE_CHECKING:
    from samza_dagster.snapshots import FleetSnapshot, Tables, Workers


class SnapshotStore(dg.ConfigurableResource[object], dg.Resolvable):
    """The component's `snapshots` and, as a resource, what takes snapshots of all of its Samza jobs."""

    cron: str = Field(
        default="*/5 * * * *", description="When one is taken: a cron expression, UTC."
    )
    running: bool = Field(
        default=False,
        description="Whether the schedules are on when they are first deployed. A snapshot that has"
        " work for several workers is a Spark of its own on the machine of the code server, unless"
        " `master` is a cluster.",
    )
    keep_days: Annotated[float, Within(0.01, 3_650)] = Field(
        default=30,
        description="Days that snapshots stay in the tables. Whole days (UTC) are dropped, those that are"
        " longer before the day of the newest snapshot.",
    )
    fresh_within_min: Annotated[int, Within(1, 100_000)] = Field(
        default=20,
        description="Minutes after which an asset without a new snapshot is no longer fresh;"
        " where the schedule is on.",
    )
    uri: str = Field(
        default="",
        description="Where the Delta tables are: a directory, or an address that deltalake"
        " knows (file:, s3:, s3a:, hdfs:, abfs:, gs:). Empty: snapshots/ below DAGSTER_HOME.",
    )
    storage_options_env: dict[str, str] = Field(
        default={},
        description="deltalake's option for that place → environment variable that holds its value.",
    )
    master: str = Field(default="local[2]", description="Spark's master URL.")
    spark_config: dict[str, Any] = Field(
        default={}, description="Spark's own settings; they win over ours."
    )

    def tables(self) -> "Tables":
        """The tables. Raises `InvalidInput` for an option whose variable isn't set."""
        from samza_dagster.snapshots import Tables

        options = settings_with_secrets("storage_options", {}, self.storage_options_env)
        return Tables(self.uri, options)

    def take(self, samza: SamzaClientResource) -> "FleetSnapshot":
        """Takes a snapshot of all the component's jobs now and keeps it in the tables.

        Raises `MissingPrerequisite` without the extra `spark`, and without a JDK where it takes Spark,
        `Unreachable` and `InvalidInput` as the connections do.
        """
        from samza_dagster.snapshots import take_fleet

        tables, jobs = self.tables(), [one.connection() for one in samza.each()]
        with closing(self.workers()) as workers:
            taken = take_fleet(workers, jobs, None, tables)
        return replace(taken, seconds={"session": workers.started_s, **taken.seconds})

    def tidy(self, keep: timedelta) -> dict[str, int]:
        """Drops whole days older than `keep` before the newest snapshot; rows dropped by table. Needs no Spark."""
        return self.tables().tidy(keep)

    def workers(self) -> "Workers":
        """Spark's workers, of a session of `LazyPySparkResource` that is started where it is needed."""
        from samza_dagster.snapshots import Workers

        def start() -> Any:
            from dagster_pyspark import LazyPySparkResource

            from samza_dagster.snapshots.workers import launching, spark_settings

            config = {**spark_settings(self.master), **self.spark_config}
            with launching(str(config["spark.master"])):
                return LazyPySparkResource(spark_config=config).spark_session

        return Workers(start)
