"""Tables of an open format: Delta, at any URI that Spark and `deltalake` both know.

    <uri>/<table>/_delta_log/…            what is in the table, commit by commit
    <uri>/<table>/<uuid>/part-….parquet   rows, as Spark wrote them

Spark writes Parquet, wherever its workers are; `deltalake` then commits the files in one transaction, in
milliseconds and without a JVM. What was written and not committed isn't in the table: a run that is killed
leaves files behind, which `tidy` removes, and no rows. Two who write at once both succeed, or one
begins its commit again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from samza_dagster.directories import data_directory
from samza_dagster.snapshots.facts import READ
from samza_dagster.snapshots.schemas import TABLES, Column, ddl

if TYPE_CHECKING:
    from deltalake import Schema
    from pyspark.sql import DataFrame, SparkSession

_TIME = 'Timestamp(Microsecond, Some("UTC"))'
UNCOMMITTED_FOR = timedelta(days=1)
"""Files that are in no table are kept that long: a write that is under way may still commit them."""


class Mark(NamedTuple):
    """How far a partition was read: the next offset; when that was; when its last record had come.

    Both in ms since the epoch, by the reader's clock and by the brokers'.
    """

    offset: int
    read_ms: int
    newest_ms: int | None


def default_uri() -> str:
    """Where the tables are if nobody says it: below `DAGSTER_HOME`, or below this user's data."""
    home = os.environ.get("DAGSTER_HOME")
    return str((Path(home) if home else data_directory()) / "snapshots")


@dataclass(frozen=True)
class Tables:
    """The tables below one URI: a local path, `file:`, `hdfs:`, `s3a:` or any other that both know.

    `storage_options` are `deltalake`'s for the place, as `aws_region`; credentials may come from the environment.
    Spark has its own, `spark.hadoop.fs.…`.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def location(self, table: str) -> str:
        """Where a table is, as anybody opens it."""
        return f"{self.uri.rstrip('/')}/{table}"

    def add(
        self, spark: SparkSession, table: str, rows: DataFrame, at: datetime | None = None
    ) -> None:
        """Adds rows in one transaction; `at` is the snapshot that all of them are of."""
        written = self._written(spark, table, rows, at)
        self._commit(table, "append", written)

    def replace(self, spark: SparkSession, table: str, read: Any, rows: DataFrame) -> None:
        """Puts rows in the place of those that were `read`; what others have added since stays.

        Raises `CommitFailedError` when another has put rows in the place of the same ones.
        """
        from deltalake.transaction import RemoveAction

        now_ms = time.time_ns() // 1_000_000
        removed = [RemoveAction(path, True, now_ms, size) for path, size in _files(read)]
        self._commit(table, "append", [*self._written(spark, table, rows, None), *removed], read)

    def opened(self, table: str) -> Any:
        """The table as it is now, a `deltalake.DeltaTable`; an empty one is made where there is none."""
        from deltalake import DeltaTable

        opened = DeltaTable.create(
            self.location(table),
            _schema(table),
            mode="ignore",
            storage_options=dict(self.storage_options),
        )
        there = {field.name for field in opened.schema().fields}
        if new := [field for field in _schema(table).fields if field.name not in there]:
            opened.alter.add_columns(new)  # of a former release: null in its rows
        return opened

    def read(self, spark: SparkSession, table: str, opened: Any | None = None) -> DataFrame:
        """All rows of a table, or of one that was opened before, with the columns of `TABLES`."""
        paths = [path for path, _ in _files(opened or self.opened(table))]
        if not paths:
            return local_rows(spark, table, [])
        reader = spark.read.schema(ddl(TABLES[table]))
        return reader.parquet(*(f"{self.location(table)}/{path}" for path in paths))

    def marks(self, opened: Any) -> dict[tuple[str, int], Mark]:
        """Topic id and partition → how far it was read, of an opened table `facts`."""
        pc: Any = import_module("pyarrow.compute")
        columns = ["topic_id", "partition", "offset", "came_ms", "at_ms"]
        rows: Any = opened.to_pyarrow_dataset()
        found: dict[tuple[str, int], Mark] = {}
        for row in rows.to_table(columns=columns, filter=pc.field("kind") == READ).to_pylist():
            mark, at = (
                Mark(row["offset"], row["came_ms"], row["at_ms"]),
                (row["topic_id"], row["partition"]),
            )
            found[at] = max(mark, found.get(at, mark))
        return found

    def last(self, table: str, jobs: Collection[tuple[str, str]] = ()) -> Any:
        """The rows of each job's newest whole snapshot, as a `pyarrow.Table` and without Spark; of these jobs when named."""
        pc: Any = import_module("pyarrow.compute")
        stamp = ["job_name", "job_id", "snapshot_time"]
        whole: Any = self.opened("snapshots").to_pyarrow_table(columns=stamp)
        newest = whole.group_by(stamp[:2]).aggregate([(stamp[2], "max")]).rename_columns(stamp)
        if jobs:
            wanted = [(row["job_name"], row["job_id"]) in jobs for row in newest.to_pylist()]
            newest = newest.filter(wanted)
        times = pc.unique(newest[stamp[2]]).to_pylist()
        rows: Any = self.opened(table).to_pyarrow_dataset()
        near = rows.to_table(filter=pc.field(stamp[2]).isin(times))
        return near.join(newest, keys=stamp, join_type="left semi")

    def tidy(self, keep: timedelta, now: datetime) -> dict[str, int]:
        """Drops snapshots older than `keep`, joins small files, removes those of nobody; rows dropped, by dataset.

        Needs no Spark. What another commits meanwhile stays.
        """
        dropped: dict[str, int] = {}
        for table, columns in TABLES.items():
            opened = self.opened(table)
            if any(column.name == "snapshot_time" for column in columns):
                oldest = (now - keep).astimezone(UTC).isoformat()
                told = opened.delete(f"snapshot_time < arrow_cast('{oldest}', '{_TIME}')")
                dropped[table] = int(told.get("num_deleted_rows") or 0)
                opened.optimize.compact()
            opened.vacuum(
                retention_hours=int(UNCOMMITTED_FOR.total_seconds() // 3600),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        return dropped

    def _written(
        self, spark: SparkSession, table: str, rows: DataFrame, at: datetime | None
    ) -> list[Any]:
        """The files of rows that Spark has written, as what a commit adds."""
        from deltalake.transaction import AddAction

        directory = f"{uuid4()}"
        place = f"{self.location(table)}/{directory}"
        rows.select([column.name for column in TABLES[table]]).write.parquet(place)
        bounds = {} if at is None else {"snapshot_time": at.isoformat(timespec="microseconds")}
        stats = json.dumps({"minValues": bounds, "maxValues": bounds} if bounds else {})
        return [
            AddAction(f"{directory}/{name}", size, {}, modified_ms, True, stats)
            for name, size, modified_ms in _listed(spark, place)
        ]

    def _commit(self, table: str, mode: str, actions: list[Any], opened: Any | None = None) -> None:
        if actions:
            (opened or self.opened(table)).create_write_transaction(actions, mode, _schema(table))


def local_rows(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """A few rows known here, as those of a table; no worker is asked for them."""
    pa: Any = import_module("pyarrow")
    untyped: Any = spark
    return untyped.createDataFrame(pa.Table.from_batches([batch_of(TABLES[table], rows)]))


def _listed(spark: SparkSession, place: str) -> list[tuple[str, int, int]]:
    """Name, bytes and time in ms of the Parquet files that Spark has written there."""
    context: Any = spark.sparkContext
    jvm, settings = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 - the one way to Hadoop's file systems
    path = jvm.org.apache.hadoop.fs.Path(place)
    found = path.getFileSystem(settings).listStatus(path)
    files = [(one.getPath().getName(), one.getLen(), one.getModificationTime()) for one in found]
    return [one for one in files if one[0].endswith(".parquet")]


def _files(opened: Any) -> list[tuple[str, int]]:
    actions: Any = opened.get_add_actions(flatten=True)
    return list(zip(*(actions[name].to_pylist() for name in ("path", "size_bytes")), strict=True))


Batch = Any
"""A `pyarrow.RecordBatch`; pyarrow has no types."""


def batch_of(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Batch:
    """Rows as Spark takes them from a worker; what isn't in a row is null, times are ms since the epoch."""
    pa: Any = import_module("pyarrow")
    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    filled = {c.name: pa.array([row.get(c.name) for row in rows], kinds[c.type]) for c in columns}
    for column in columns:
        if column.type == "timestamp":
            filled[column.name] = filled[column.name].cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(filled)


_DELTA_TYPES = {"bigint": "long", "int": "integer"}


@cache
def _schema(table: str) -> Schema:
    from deltalake import Field, Schema
    from deltalake.schema import PrimitiveType

    def typed(column: Column) -> Field:
        kind = PrimitiveType(_DELTA_TYPES.get(column.type, column.type))
        return Field(column.name, kind, nullable=True, metadata={"comment": column.doc})

    return Schema([typed(column) for column in TABLES[table]])
