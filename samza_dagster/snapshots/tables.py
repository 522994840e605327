"""Snapshots on disk: Parquet, partitioned by snapshot time and job.

    <data dir>/<dataset>/snapshot_time=<ms>/job_name=<name>/job_id=<id>/part-….parquet
    <data dir>/complete/<ms>/<job name>.<job id>.json

A snapshot is there for readers once its file below `complete/` is, which is written last
and by rename: no reader sees one dataset of a snapshot without the others. Writing the
same snapshot again replaces its rows.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.snapshots.kafka_source import local_rows
from samza_dagster.snapshots.schemas import DATASETS, PARTITION_COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from samza_dagster.snapshots.snapshot import Snapshot

_COMPLETE = "complete"
_VERSION = 1


@dataclass(frozen=True, order=True)
class SnapshotId:
    """One complete snapshot on disk."""

    snapshot_time_ms: int
    job_name: str
    job_id: str


class SnapshotTables:
    """The tables below one local directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()

    def dataset_path(self, dataset: str) -> Path:
        """Where a dataset's files are. Raises `InvalidInput` for an unknown name."""
        if dataset not in DATASETS:
            raise InvalidInput(
                f"dataset {dataset!r}", seen="no such dataset", fix=f"one of {sorted(DATASETS)}"
            )
        return self.data_dir / dataset

    def write(self, snapshot: Snapshot) -> SnapshotId:
        """Writes a snapshot, or replaces it: rows of other times and jobs stay untouched."""
        written = SnapshotId(snapshot.snapshot_time_ms, snapshot.job_name, snapshot.job_id)
        marker = self._marker(written)
        marker.unlink(missing_ok=True)
        for dataset in DATASETS:
            rows = snapshot.frame(dataset).drop(*PARTITION_COLUMNS).coalesce(1)
            rows.write.mode("overwrite").parquet(str(self.partition_path(dataset, written)))
        marker.parent.mkdir(parents=True, exist_ok=True)
        draft = marker.with_name(f".{marker.name}.{os.getpid()}")
        draft.write_text(json.dumps(_facts(snapshot)), encoding="utf-8")
        draft.replace(marker)
        return written

    def snapshots(
        self, *, job_name: str | None = None, job_id: str | None = None
    ) -> list[SnapshotId]:
        """The complete snapshots, oldest first; of one job when named. Needs no Spark."""
        found = (
            _snapshot_id(marker) for marker in (self.data_dir / _COMPLETE).glob("[0-9]*/[!.]*.json")
        )
        return sorted(
            s for s in found if job_name in (None, s.job_name) and job_id in (None, s.job_id)
        )

    def facts(self, snapshot: SnapshotId) -> dict[str, Any]:
        """What was kept beside the rows: offset ranges read, counts of unreadable records,
        seconds of each part. Raises `MalformedRecord` when it isn't there or unreadable.
        """
        marker = self._marker(snapshot)
        try:
            facts = json.loads(marker.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise MalformedRecord(f"read {marker}", seen=str(error)) from error
        if not isinstance(facts, dict) or facts.get("version") != _VERSION:  # pyright: ignore[reportUnknownMemberType]
            raise MalformedRecord(f"read {marker}", seen="no facts of version 1")
        return facts  # pyright: ignore[reportUnknownVariableType]

    def read(
        self, spark: SparkSession, dataset: str, snapshots: list[SnapshotId] | None = None
    ) -> DataFrame:
        """The rows of these snapshots (None: of all complete ones), with `DATASETS`' columns."""
        chosen = self.snapshots() if snapshots is None else snapshots
        schema = ddl(DATASETS[dataset])
        paths = [str(self.partition_path(dataset, s)) for s in chosen]
        if not paths:
            return local_rows(spark, [], ddl(DATASETS[dataset], separator=": "))
        base = str(self.dataset_path(dataset))
        frame = spark.read.schema(schema).option("basePath", base).parquet(*paths)
        return frame.select([column.name for column in DATASETS[dataset]])

    def read_last(
        self,
        spark: SparkSession,
        dataset: str,
        *,
        job_name: str | None = None,
        job_id: str | None = None,
    ) -> DataFrame:
        """The rows of each job's newest snapshot."""
        newest = {
            (s.job_name, s.job_id): s for s in self.snapshots(job_name=job_name, job_id=job_id)
        }
        return self.read(spark, dataset, sorted(newest.values()))

    def partition_path(self, dataset: str, s: SnapshotId) -> Path:
        """Where a dataset's rows of one snapshot are; for `snapshot_time`, job name and id."""
        values = (str(s.snapshot_time_ms), s.job_name, s.job_id)
        parts = [f"{c}={_escaped(v)}" for c, v in zip(PARTITION_COLUMNS, values, strict=True)]
        return self.dataset_path(dataset).joinpath(*parts)

    def _marker(self, s: SnapshotId) -> Path:
        name = f"{_escaped(s.job_name)}.{_escaped(s.job_id)}.json"
        return self.data_dir / _COMPLETE / str(s.snapshot_time_ms) / name


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "deployment_id": snapshot.streams.deployment_id,
        "ranges": [asdict(r) for r in snapshot.ranges],
        "malformed_keys": snapshot.malformed_keys,
        "malformed_values": snapshot.malformed_values,
        "ignored": list(snapshot.streams.ignored),
        "seconds": snapshot.seconds,
    }


def _escaped(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


def _snapshot_id(marker: Path) -> SnapshotId:
    job_name, job_id = marker.stem.split(".", 1)
    return SnapshotId(int(marker.parent.name), unquote(job_name), unquote(job_id))
