"""Tables of an open format: Delta, at any URI that `deltalake` knows.

    <uri>/<table>/_delta_log/…                          what is in the table, commit by commit
    <uri>/<table>/snapshot_day=2026-11-29/….parquet     rows, as whoever found them wrote them

Spark's workers write Parquet, each what it has found, and the driver commits all of their files in one
transaction: a worker whose task is done twice, or a run that is killed, leaves files behind and no rows.
Everything that changes what is in a table is a commit that Delta holds against those of others, so any number of
writers and maintenances may be at it side by side.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from samza_dagster.directories import data_directory
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.snapshots.arrow import compute, dataset, filesystem, pa, parquet
from samza_dagster.snapshots.schemas import DAY, TABLES, Column
from samza_dagster.snapshots.secrets import Secret

_OWNER, _KEPT_SINCE = "samza_dagster.table", "samza_dagster.kept_since"
_OURS = "samza-dagster-"
"""Names of our files begin so: nothing else is ever removed."""
_ROWS_TOGETHER = 1_000
"""Of a file, that a reader skips or reads: rows are sorted by job."""
_BOUND = 32
"""Characters of a text that are enough to tell where it is in their order."""
_JOINED_BYTES = 64 << 20
"""Of a day's files, up to which they are joined: they are in memory then."""
_REMOVED_FOR = timedelta(days=1)
"""Files that a table has no more stay that long for whoever reads it as it was."""
_TRIES = 10
_ARROW_ERROR: type[Exception] = pa.ArrowException
_COLOURS = re.compile("\x1b\\[[0-9;]*m")


class File(NamedTuple):
    """Rows of a table that were written; they are in it once the file is committed."""

    table: str
    path: str
    day: str
    size: int
    rows: int
    stats: str


Row = Mapping[str, Any]
"""By names of columns; what isn't in it is null. Times are ms since the epoch."""


def default_uri() -> str:
    """Where the tables are if nobody says it: below `DAGSTER_HOME`, or below this user's data."""
    home = os.environ.get("DAGSTER_HOME")
    return str((Path(home) if home else data_directory()) / "snapshots")


def day_of(at: datetime) -> str:
    """The partition that has rows of this time: its day in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d}"


@dataclass(frozen=True)
class Tables:
    """The tables below one URI: a local path, `file:`, `hdfs:`, `s3a:` or any other that `deltalake` knows.

    `storage_options` are `deltalake`'s for the place, as `aws_region`; credentials may come from the environment.
    Each call raises `Unreachable` where the place can't be read or written, `Refused` where it isn't ours.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_options", Secret.of("tables", self.storage_options))

    def location(self, table: str) -> str:
        """Where a table is, as anybody opens it."""
        return f"{self.uri.rstrip('/')}/{table}"

    def write(self, table: str, rows: Sequence[Row]) -> File:
        """Write a file of the table, in any process, and commit nothing. All rows are of one snapshot."""
        day = day_of(datetime.fromtimestamp(rows[0]["snapshot_time"] / 1000, UTC))
        path = f"{DAY}={day}/{_OURS}{uuid4()}.parquet"
        columns, name = _columns(table, rows), f"{table}/{path}"
        with self._at(table):
            place = self._place()
            parquet.write_table(columns, name, filesystem=place, row_group_size=_ROWS_TOGETHER)
            size = place.get_file_info(name).size
        return File(table, path, day, size, len(rows), _stats(columns))

    def commit(self, table: str, files: Iterable[File]) -> None:
        """Add files in one transaction. Raises `Refused` for those of a day that was dropped meanwhile."""
        now_ms = time.time_ns() // 1_000_000
        added = list(files)
        actions = [
            AddAction(one.path, one.size, {DAY: one.day}, now_ms, True, one.stats) for one in added
        ]
        for attempt in range(_TRIES if actions else 0):
            opened = self.opened(table)
            kept_since = opened.metadata().configuration.get(_KEPT_SINCE, "")
            if any(one.day < kept_since for one in added):
                raise Refused(
                    f"add rows of {added[0].day} to table {self.location(table)}",
                    seen=f"days before {kept_since} have been dropped",
                    fix="a snapshot of now",
                )
            with self._at(table):
                try:
                    opened.create_write_transaction(actions, "append", _schema(table), [DAY])
                    return
                except CommitFailedError:  # the table was tidied meanwhile: it is opened anew
                    if attempt == _TRIES - 1:
                        raise

    def opened(self, table: str) -> Any:
        """The table as it is now, a `deltalake.DeltaTable`; an empty one is made where there is nothing."""
        opened = self.found(table)
        if opened is None:
            with self._at(table), suppress(CommitFailedError):  # another made it at the same time
                DeltaTable.create(
                    self.location(table),
                    _schema(table),
                    mode="ignore",
                    partition_by=[DAY],
                    configuration={_OWNER: table},
                    raise_if_key_not_exists=False,
                    storage_options=dict(self.storage_options),
                )
            opened = self.found(table)
        return opened

    def found(self, table: str) -> Any:
        """The table if it has been made, else None. Raises `Refused` where its place holds what isn't ours."""
        location, options = self.location(table), dict(self.storage_options)
        with self._at(table):
            if DeltaTable.is_deltatable(location, options):
                opened = DeltaTable(location, storage_options=options)
                if opened.metadata().configuration.get(_OWNER) == table:
                    return opened
                seen = f"a Delta table without our property {_OWNER}={table}"
            else:
                files = self._foreign_files(table)
                if not files:
                    return None
                seen = f"no Delta table, and {len(files):,} files, as {min(files)}"
        raise Refused(
            f"table {location} of snapshots",
            seen=seen,
            fix="another uri: an empty directory, or one that holds our tables",
        )

    def _foreign_files(self, table: str) -> list[str]:
        """Neither those of a log, with which whoever makes a table begins, nor what killed runs have left."""
        everything = filesystem.FileSelector(table, allow_not_found=True, recursive=True)
        try:
            found: Any = self._place().get_file_info(everything)
        except (TableNotFoundError, OSError):
            return []  # there is no such place yet; making the table tells whether there can be
        return [
            one.path
            for one in found
            if one.is_file
            and "/_delta_log/" not in one.path
            and not one.base_name.startswith(_OURS)
        ]

    def read(self, table: str, paths: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The rows of these files, in their order."""
        every = [f"{table}/{path}" for path in paths]
        if every:
            with self._at(table):
                found = dataset.dataset(every, _file_schema(table), "parquet", self._place())
                for batch in found.to_batches():
                    yield from batch.to_pylist()

    def tidy(self, keep: timedelta) -> dict[str, int]:
        """Drop days older than `keep` before the newest snapshot, join small files; return rows dropped, by dataset.

        No clock is asked: one that is wrong would drop what is to be kept. What others commit meanwhile
        stays, and what they tidy meanwhile is left to them.
        """
        dropped: dict[str, int] = {}
        newest = self._newest_day()
        for table in TABLES if newest else ():
            oldest = day_of(datetime.fromisoformat(f"{newest}T00:00:00+00:00") - keep)
            dropped[table] = 0
            with self._at(table), suppress(CommitFailedError):
                opened = self.opened(table)
                dropped[table] = self._drop(opened, table, oldest)
                self._join(opened, newest)
                opened.vacuum(
                    retention_hours=int(_REMOVED_FOR.total_seconds() // 3600),
                    dry_run=False,
                    enforce_retention_duration=False,
                )
        return dropped

    def _newest_day(self) -> str:
        """Empty: there is no snapshot."""
        with self._at("snapshots"):
            days = self.opened("snapshots").to_pyarrow_table(columns=[DAY])[DAY]
            return compute.max(days).as_py() or ""

    def _drop(self, opened: Any, table: str, oldest: str) -> int:
        """Once it says so, no file of such a day can be committed any more: those of nobody go then."""
        rows = int(opened.delete(f"{DAY} < '{oldest}'").get("num_deleted_rows") or 0)
        if opened.metadata().configuration.get(_KEPT_SINCE, "") >= oldest:
            return rows
        opened.alter.set_table_properties({_KEPT_SINCE: oldest}, raise_if_not_exists=False)
        place = self._place()
        gone = day_of(datetime.fromisoformat(f"{oldest}T00:00:00+00:00") - _REMOVED_FOR)
        for folder in place.get_file_info(filesystem.FileSelector(table)):
            if "" < folder.base_name.partition("=")[2] < gone:
                for one in place.get_file_info(filesystem.FileSelector(folder.path)):
                    if one.base_name.startswith(_OURS):
                        place.delete_file(one.path)
        return rows

    def _join(self, opened: Any, newest: str) -> None:
        """Days that are over get no more files, and need no more than a few."""
        files: dict[str, list[int]] = {}
        added: Any = opened.get_add_actions(flatten=True)
        sizes = (added[name].to_pylist() for name in (f"partition.{DAY}", "size_bytes"))
        for day, size in zip(*sizes, strict=True):
            files.setdefault(day, []).append(size)
        for day, mine in files.items():
            if day < newest and len(mine) > 1 and sum(mine) <= _JOINED_BYTES:
                of_day = compute.field(DAY) == day
                rows = opened.to_pyarrow_dataset().to_table(filter=of_day)
                rows = rows.sort_by([("snapshot_time", "ascending"), ("job_name", "ascending")])
                write_deltalake(opened, rows, mode="overwrite", predicate=f"{DAY} = '{day}'")

    def _place(self) -> Any:
        """The directory of all tables as `pyarrow` opens files."""
        return filesystem.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))

    def errors_at(self, table: str) -> AbstractContextManager[None]:
        """Tell in one line what a reader of the opened table meets there: files that are gone or cut, other columns."""
        return self._at(table)

    @contextmanager
    def _at(self, table: str) -> Generator[None]:
        """Tell what libraries say of the place in one line."""
        try:
            yield
        except (DeltaError, OSError, _ARROW_ERROR) as error:
            raise Unreachable(
                f"table {self.location(table)} of snapshots",
                seen=" ".join(_COLOURS.sub("", str(error)).split())[:300],
                fix="room and rights there, its address, or the storage options that it needs",
            ) from error


def _columns(table: str, rows: Sequence[Row]) -> Any:
    schema = _file_schema(table)
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
def _file_schema(table: str) -> Any:
    """A file has all columns but its day, which its path tells."""
    every = pa.schema(_schema(table).to_arrow())
    return pa.schema([column for column in every if column.name != DAY])


_DELTA_TYPES = {"bigint": "long", "int": "integer"}


@cache
def _schema(table: str) -> Schema:
    def typed(column: Column) -> Field:
        kind = PrimitiveType(_DELTA_TYPES.get(column.type, column.type))
        return Field(column.name, kind, nullable=True, metadata={"comment": column.doc})

    return Schema([typed(column) for column in TABLES[table]])
