"""The resource behind the snapshot assets: takes one snapshot and keeps it in Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.resource import SamzaClientResource, settings_with_secrets

if TYPE_CHECKING:
    from samza_dagster.lag import PastError
    from samza_dagster.snapshots import Tables, Workers

Rows = Sequence[Mapping[str, Any]]
MOST_ROWS = 20_000
"""Of a dataset, that a run looks at for what it shows; the tables have all."""


@dataclass(frozen=True)
class TakenSnapshot:
    """The rows of a snapshot by dataset, where each table is, and what it cost in seconds.

    `counts` are the rows in the tables, which may be more than `rows`. `unread` names what couldn't
    be reached, and why, `unpublished` the jobs whose standbys' readiness couldn't be published. `past` is the
    error of former forecasts.
    """

    at: datetime
    rows: Mapping[str, Rows]
    counts: Mapping[str, int]
    paths: Mapping[str, str]
    seconds: Mapping[str, float]
    unreadable: int = 0
    unread: Mapping[str, str] = field(default_factory=dict[str, str])
    unpublished: Mapping[str, str] = field(default_factory=dict[str, str])
    past: PastError | None = None


class SnapshotStore(dg.ConfigurableResource[object]):
    """Where snapshots are kept, and how Spark is started for them."""

    uri: str = Field(default="", description="Of the tables. Empty: snapshots/ below DAGSTER_HOME.")
    storage_options_env: dict[str, str] = Field(
        default={}, description="deltalake's option → environment variable that holds its value."
    )
    master: str = Field(default="local[2]", description="Spark's master URL.")

    def tables(self) -> Tables:
        """The tables. Raises `InvalidInput` for an option whose variable isn't set."""
        from samza_dagster.snapshots import Tables
        from samza_dagster.snapshots.tables import default_uri

        return Tables(
            self.uri or default_uri(),
            settings_with_secrets("storage_options", {}, self.storage_options_env),
        )

    def take(
        self, samza: SamzaClientResource, spark_config: Mapping[str, Any] | None = None
    ) -> TakenSnapshot:
        """Takes a snapshot of all the component's jobs now, keeps it and returns its rows.

        Raises `MissingPrerequisite` without the extra `spark`, and without a JDK where it takes Spark,
        `Unreachable` and `InvalidInput` as the connections do.
        """
        from samza_dagster.snapshots import take_fleet
        from samza_dagster.snapshots.schemas import DATASETS

        tables, jobs = self.tables(), [one.connection() for one in samza.each()]
        with closing(self.workers(spark_config or {})) as workers:
            snapshot = take_fleet(workers, jobs, None, tables)
            return TakenSnapshot(
                at=snapshot.at,
                rows={dataset: snapshot.rows(dataset, MOST_ROWS) for dataset in DATASETS},
                counts=dict(snapshot.counts),
                paths={dataset: tables.location(dataset) for dataset in DATASETS},
                seconds={"session": workers.started_s, **snapshot.seconds},
                unreadable=snapshot.unreadable,
                unread=dict(snapshot.unread),
                unpublished=dict(snapshot.unpublished),
                past=snapshot.past,
            )

    def tidy(self, keep: timedelta) -> dict[str, int]:
        """Drops what is older, joins small files; rows dropped by table. Needs no Spark."""
        return self.tables().tidy(keep)

    def workers(self, spark_config: Mapping[str, Any]) -> Workers:
        """A session of `LazyPySparkResource` where Spark is needed; `spark_config` wins over what is set here."""
        from samza_dagster.snapshots import Workers

        def start() -> Any:
            from dagster_pyspark import LazyPySparkResource

            from samza_dagster.snapshots.session import APP_NAME, launching, spark_settings

            config = {
                "spark.master": self.master,
                "spark.app.name": APP_NAME,
                **spark_settings(self.master),
                **spark_config,
            }
            with launching(str(config["spark.master"])):
                return LazyPySparkResource(spark_config=config).spark_session

        return Workers(start)
