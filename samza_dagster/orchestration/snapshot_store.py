"""The resource behind the snapshot assets: one Spark session and one snapshot time a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[Mapping[str, Any]]


class SnapshotStore(dg.ConfigurableResource[object]):
    """Where snapshots are kept as Parquet, and the Spark session that takes them."""

    path: str = Field(
        default="",
        description="Directory or URL of the tables. Empty: snapshots/ below DAGSTER_HOME.",
    )
    spark_master: str = Field(default="local[2]", description="Spark's master URL.")

    _spark: SparkSession | None = PrivateAttr(default=None)
    _snapshot_ms: int = PrivateAttr(default=0)

    @property
    def directory(self) -> str:
        """Where the tables are."""
        home = os.environ.get("DAGSTER_HOME") or str(Path.home() / ".samza_dagster")
        return self.path or str(Path(home) / "snapshots")

    @property
    def snapshot_ms(self) -> int:
        """The time of this run's snapshot, ms since the epoch: the same for all its tables."""
        if not self._snapshot_ms:
            self._snapshot_ms = time.time_ns() // 1_000_000
        return self._snapshot_ms

    def take(self, dataset: str, samza: SamzaClientResource) -> Rows:
        """Computes one dataset, keeps it under its snapshot time and returns its rows."""
        from samza_dagster import snapshots

        compute: Callable[..., Rows] = getattr(snapshots, dataset)
        rows = compute(samza.connection(), self._session())
        snapshots.store(rows, dataset, self.directory, self.snapshot_ms)
        return rows

    def _session(self) -> SparkSession:
        spark = self._spark
        if spark is None:
            from samza_dagster import snapshots

            spark = self._spark = snapshots.spark_session(self.spark_master)
        return spark

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Ends the Spark session of the run, if there was one."""
        spark, self._spark = self._spark, None
        if spark is not None:
            spark.stop()
