"""Tables of an open format: Delta, at any URI that `deltalake` knows.

    <uri>/<table>/_delta_log/…        what is in the table, commit by commit
    <uri>/<table>/<uuid>.parquet      rows, as whoever found them wrote them

Spark's workers write Parquet, each what it has found, and the driver commits all of their files in one
transaction, in milliseconds. What was written and not committed isn't in the table: a run that is killed
leaves files behind, which `tidy` removes, and no rows. Two who write at once both succeed, or one
begins its commit again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from deltalake import DeltaTable, Field, Schema
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from samza_dagster.directories import data_directory
from samza_dagster.snapshots.arrow import compute, dataset, filesystem, pa, parquet
from samza_dagster.snapshots.facts import READ
from samza_dagster.snapshots.schemas import TABLES, Column

_TIME = 'Timestamp(Microsecond, Some("UTC"))'
_ROWS_TOGETHER = 1_000
"""Of a file, that a reader skips or reads: rows are sorted by job."""
_BOUND = 32
"""Characters of a text that are enough to tell where it is in their order."""
UNCOMMITTED_FOR = timedelta(days=1)
"""Files that are in no table are kept that long: a write that is under way may still commit them."""


class Mark(NamedTuple):
    """How far a partition was read: the next offset; when that was; when its last record had come.

    Both in ms since the epoch, by the reader's clock and by the brokers'.
    """

    offset: int
    read_ms: int
    newest_ms: int | None


class File(NamedTuple):
    """Rows of a table that were written; they are in it once the file is committed."""

    table: str
    path: str
    size: int
    rows: int
    stats: str


Row = Mapping[str, Any]
"""By names of columns; what isn't in it is null. Times are ms since the epoch."""


def default_uri() -> str:
    """Where the tables are if nobody says it: below `DAGSTER_HOME`, or below this user's data."""
    home = os.environ.get("DAGSTER_HOME")
    return str((Path(home) if home else data_directory()) / "snapshots")


@dataclass(frozen=True)
class Tables:
    """The tables below one URI: a local path, `file:`, `hdfs:`, `s3a:` or any other that `deltalake` knows.

    `storage_options` are `deltalake`'s for the place, as `aws_region`; credentials may come from the environment.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def location(self, table: str) -> str:
        """Where a table is, as anybody opens it."""
        return f"{self.uri.rstrip('/')}/{table}"

    def write(self, table: str, rows: Sequence[Row]) -> File:
        """Writes a file of the table, in any process, and commits nothing."""
        columns = _columns(table, rows)
        path, place = f"{uuid4()}.parquet", self._place()
        name = f"{table}/{path}"
        parquet.write_table(columns, name, filesystem=place, row_group_size=_ROWS_TOGETHER)
        return File(table, path, place.get_file_info(name).size, len(rows), _stats(columns))

    def commit(self, table: str, files: Iterable[File], *, instead_of: Any = None) -> None:
        """Adds files in one transaction.

        `instead_of`: those of an opened table go; what others have added to it since stays. Raises
        `CommitFailedError` when another has put files in the place of the same ones.
        """
        now_ms = time.time_ns() // 1_000_000
        actions: list[Any] = [
            AddAction(each.path, each.size, {}, now_ms, True, each.stats) for each in files
        ]
        for path, size in () if instead_of is None else _files(instead_of):
            actions.append(RemoveAction(path, True, now_ms, size))
        if actions:
            opened = self.opened(table) if instead_of is None else instead_of
            opened.create_write_transaction(actions, "append", _schema(table))

    def opened(self, table: str) -> Any:
        """The table as it is now, a `deltalake.DeltaTable`; an empty one is made where there is none."""
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

    def read(
        self,
        table: str,
        paths: Iterable[str],
        columns: Sequence[str] | None = None,
        rows: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of these files, in their order; `rows`: those that this `pyarrow` expression is true of."""
        every = [f"{table}/{path}" for path in paths]
        if every:
            found = dataset.dataset(every, _arrow_schema(table), "parquet", self._place())
            for batch in found.to_batches(columns=columns, filter=rows):
                yield from batch.to_pylist()

    def _place(self) -> Any:
        """The directory of all tables as `pyarrow` opens files."""
        return filesystem.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))

    def marks(self, opened: Any) -> dict[tuple[str, int], Mark]:
        """Topic id and partition → how far it was read, of an opened table `facts`."""
        columns = ["topic_id", "partition", "offset", "came_ms", "at_ms"]
        rows: Any = opened.to_pyarrow_dataset()
        found: dict[tuple[str, int], Mark] = {}
        for row in rows.to_table(columns=columns, filter=compute.field("kind") == READ).to_pylist():
            mark, at = (
                Mark(row["offset"], row["came_ms"], row["at_ms"]),
                (row["topic_id"], row["partition"]),
            )
            found[at] = max(mark, found.get(at, mark))
        return found

    def last(self, table: str, jobs: Collection[tuple[str, str]] = ()) -> Any:
        """The rows of each job's newest whole snapshot, as a `pyarrow.Table` and without Spark; of these jobs when named."""
        stamp = ["job_name", "job_id", "snapshot_time"]
        whole: Any = self.opened("snapshots").to_pyarrow_table(columns=stamp)
        newest = whole.group_by(stamp[:2]).aggregate([(stamp[2], "max")]).rename_columns(stamp)
        if jobs:
            wanted = [(row["job_name"], row["job_id"]) in jobs for row in newest.to_pylist()]
            newest = newest.filter(wanted)
        times = compute.unique(newest[stamp[2]]).to_pylist()
        rows: Any = self.opened(table).to_pyarrow_dataset()
        near = rows.to_table(filter=compute.field(stamp[2]).isin(times))
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
                metrics = opened.delete(f"snapshot_time < arrow_cast('{oldest}', '{_TIME}')")
                dropped[table] = int(metrics.get("num_deleted_rows") or 0)
                opened.optimize.compact()
            opened.vacuum(
                retention_hours=int(UNCOMMITTED_FOR.total_seconds() // 3600),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        return dropped


def paths_of(opened: Any) -> list[str]:
    """The files of an opened table."""
    return [path for path, _ in _files(opened)]


def job_names(opened: Any) -> set[str]:
    """Those that an opened table has rows of."""
    rows: Any = opened.to_pyarrow_dataset().to_table(columns=["job_name"])
    return {name for name in compute.unique(rows["job_name"]).to_pylist() if name is not None}


def _files(opened: Any) -> list[tuple[str, int]]:
    actions: Any = opened.get_add_actions(flatten=True)
    return list(zip(*(actions[name].to_pylist() for name in ("path", "size_bytes")), strict=True))


def _columns(table: str, rows: Sequence[Row]) -> Any:
    schema = _arrow_schema(table)
    filled: list[Any] = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        if pa.types.is_timestamp(column.type):
            values = pa.array(values, pa.timestamp("ms", tz="UTC"))
            filled.append(values.cast(column.type))
        else:
            filled.append(pa.array(values, column.type))
    return pa.Table.from_arrays(filled, schema=schema)


def _stats(columns: Any) -> str:
    """What readers pass files over by. Of every column: where one has bounds, one without is taken for null."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name in columns.column_names:
        if columns[name].null_count < columns.num_rows:
            bounds = compute.min_max(columns[name]).as_py()
            least[name], most[name] = _bound(bounds["min"], ""), _bound(bounds["max"], "\U0010ffff")
    nulls = {name: columns[name].null_count for name in columns.column_names}
    statistics = {"numRecords": columns.num_rows, "minValues": least, "maxValues": most}
    return json.dumps({**statistics, "nullCount": nulls})


def _bound(value: Any, beyond: str) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, str) and len(value) > _BOUND:
        return value[:_BOUND] + beyond
    return value


@cache
def _arrow_schema(table: str) -> Any:
    return pa.schema(_schema(table).to_arrow())


_DELTA_TYPES = {"bigint": "long", "int": "integer"}


@cache
def _schema(table: str) -> Schema:
    def typed(column: Column) -> Field:
        kind = PrimitiveType(_DELTA_TYPES.get(column.type, column.type))
        return Field(column.name, kind, nullable=True, metadata={"comment": column.doc})

    return Schema([typed(column) for column in TABLES[table]])
