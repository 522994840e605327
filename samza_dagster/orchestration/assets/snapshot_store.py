"""The resource behind the snapshot assets: takes one snapshot with Spark and keeps it as Parquet."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.directories import data_directory
from samza_dagster.orchestration.resource import SamzaClientResource

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class TakenSnapshot:
    """The rows of a snapshot by dataset, the partition where each is kept, and what it cost."""

    snapshot_ms: int
    rows: Mapping[str, Rows]
    paths: Mapping[str, str]
    seconds: Mapping[str, float]
    unreadable_records: int = 0


class SnapshotStore(dg.ConfigurableResource[object]):
    """Where snapshots are kept, and the Spark that takes them."""

    path: str = Field(
        default="",
        description="Directory of the tables. Empty: snapshots/ below DAGSTER_HOME.",
    )
    spark_master: str = Field(default="local[2]", description="Spark's master URL.")

    @property
    def directory(self) -> Path:
        """Where the tables are."""
        home = os.environ.get("DAGSTER_HOME")
        base = Path(home) if home else data_directory()
        return Path(self.path) if self.path else base / "snapshots"

    def take(self, samza: SamzaClientResource) -> TakenSnapshot:
        """Takes a snapshot now, keeps it under its time and returns its rows.

        One Spark session, ended with it; its JVM starts from the class archive when
        `python -m samza_dagster.snapshots.class_archive` has written one. Raises `MissingPrerequisite` without the extra
        `spark` or a JDK, `Unreachable` and `InvalidInput` as the connection does.
        """
        from samza_dagster.snapshots import compute_snapshot, connector_jars, spark_session
        from samza_dagster.snapshots.class_archive import archive_path
        from samza_dagster.snapshots.schemas import DATASETS
        from samza_dagster.snapshots.tables import SnapshotTables

        started = time.monotonic()
        jars = connector_jars()
        spark = spark_session(jars, self.spark_master, class_archive=archive_path(jars))
        session_s = time.monotonic() - started
        try:
            snapshot = compute_snapshot(
                samza.connection(), spark, snapshot_time_ms=time.time_ns() // 1_000_000
            )
            tables = SnapshotTables(self.directory)
            write_began = time.monotonic()
            written = tables.write(snapshot)
            write_s = time.monotonic() - write_began
            return TakenSnapshot(
                snapshot_ms=snapshot.snapshot_time_ms,
                rows={dataset: snapshot.rows(dataset) for dataset in DATASETS},
                paths={
                    dataset: str(tables.partition_path(dataset, written)) for dataset in DATASETS
                },
                seconds={
                    "session": round(session_s, 3),
                    **snapshot.seconds,
                    "write": round(write_s, 3),
                },
                unreadable_records=snapshot.malformed_keys + snapshot.malformed_values,
            )
        finally:
            spark.stop()
