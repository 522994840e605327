"""Tables of an open format, and what earlier snapshots tell: Delta, at any URI that `deltalake` knows.

    <uri>/<table>/_delta_log/…                          what is in the table, commit by commit
    <uri>/<table>/snapshot_day=2026-11-29/….parquet     rows of that day

Each change of a table is a commit that Delta checks against concurrent ones, so any number of writers and
maintenances may run side by side. Earlier snapshots are history and never the present; of their rows those
that are wanted are filtered as they are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    SchemaMismatchError,
    TableNotFoundError,
)
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType

from samza_dagster.directories import data_directory
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.lag import ReplicaReport, Speeds, speeds
from samza_dagster.snapshots.arrow import compute, filesystem, pa
from samza_dagster.snapshots.schemas import DAY, TABLES
from samza_dagster.snapshots.secrets import Secret

_OWNER, _KEPT_SINCE = "samza_dagster.table", "samza_dagster.kept_since"
_PROPERTIES = {"delta.dataSkippingNumIndexedCols": "-1"}
"""A reader takes a column without bounds for null where others have them: so all columns have them."""
_JOINED_BYTES = 64 << 20
"""Of a day's files, up to which they are joined: they are in memory then."""
_REMOVED_FOR_H = 24
"""Files that a table no longer has stay so many hours for readers of its former versions."""
_TRIES = 10
REMEMBERED = timedelta(days=1)
MOST_PACES = 10_000
_TABLE = "changelog_lag"
_REPLICA = ("job_name", "job_id", "task_name", "store")
ReplicaId = tuple[str, str, str, str]
_field = compute.field
_ARROW_ERROR: type[Exception] = pa.ArrowException
_COLOURS = re.compile("\x1b\\[[0-9;]*m")


Row = Mapping[str, Any]
"""By names of columns; what isn't in it is null. Times are ms since the epoch."""


def day_of(at: datetime) -> str:
    """The partition that has rows of this time: its day in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d}"


@dataclass(frozen=True)
class Tables:
    """The tables below one URI: a local path, `file:`, `hdfs:`, `s3a:` or any other that `deltalake` knows.

    Without one they are below `DAGSTER_HOME`, or below this user's data.
    `storage_options` are `deltalake`'s for the place, as `aws_region`; credentials may come from the environment.
    Each call raises `Unreachable` where the place can't be read or written, `Refused` where it isn't ours.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        if not self.uri:
            home = os.environ.get("DAGSTER_HOME")
            uri = (Path(home) if home else data_directory()) / "snapshots"
            object.__setattr__(self, "uri", str(uri))
        object.__setattr__(self, "storage_options", Secret.of("tables", self.storage_options))

    def location(self, table: str) -> str:
        """Where a table is, as anybody opens it."""
        return f"{self.uri.rstrip('/')}/{table}"

    def add(self, table: str, rows: Any) -> None:
        """Add rows of one snapshot (`arrow_table`) in one commit. Raises `Refused` for a day that was dropped meanwhile."""
        if not rows.num_rows:
            return
        day = rows[DAY][0].as_py()
        for attempt in range(_TRIES):
            opened = self.opened(table)
            kept_since = opened.metadata().configuration.get(_KEPT_SINCE, "")
            if day < kept_since:
                raise Refused(
                    f"add rows of {day} to table {self.location(table)}",
                    seen=f"days before {kept_since} have been dropped",
                    fix="a snapshot of now",
                )
            with self.errors_at(table):
                try:
                    write_deltalake(opened, rows, mode="append", schema_mode="merge")
                    return
                except CommitFailedError:  # the table was tidied meanwhile: it is opened anew
                    if attempt == _TRIES - 1:
                        raise

    def opened(self, table: str) -> Any:
        """The table as it is now, a `deltalake.DeltaTable`; an empty one is made where there is nothing."""
        opened = self.found(table)
        if opened is None:
            with (
                self.errors_at(table),
                suppress(CommitFailedError),
            ):  # another made it at the same time
                DeltaTable.create(
                    self.location(table),
                    _schema(table),
                    mode="ignore",
                    partition_by=[DAY],
                    configuration={_OWNER: table, **_PROPERTIES},
                    raise_if_key_not_exists=False,
                    storage_options=dict(self.storage_options),
                )
            opened = self.found(table)
        return opened

    def found(self, table: str) -> Any:
        """The table if it has been made, else None. Raises `Refused` where its place holds what isn't ours."""
        location, options = self.location(table), dict(self.storage_options)
        with self.errors_at(table):
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
        """Return foreign files; those of a log don't count, since every table begins with it."""
        everything = filesystem.FileSelector(table, allow_not_found=True, recursive=True)
        try:
            place = DeltaStorageHandler(self.uri, dict(self.storage_options))
            found: Any = filesystem.PyFileSystem(place).get_file_info(everything)
        except (TableNotFoundError, OSError):
            return []  # there is no such place yet; making the table tells whether there can be
        return [one.path for one in found if one.is_file and "/_delta_log/" not in one.path]

    def tidy(self, keep: timedelta) -> dict[str, int]:
        """Drop days older than `keep` before the newest snapshot, join small files; return rows dropped, by dataset.

        It uses no clock, since a wrong one would drop rows that should stay. Commits of others
        meanwhile stay, and what others tidy meanwhile is left to them.
        """
        dropped: dict[str, int] = {}
        with self.errors_at("snapshots"):
            days = self.opened("snapshots").to_pyarrow_table(columns=[DAY])[DAY]
            newest: str = compute.max(days).as_py() or ""
        for table in TABLES if newest else ():
            oldest = day_of(datetime.fromisoformat(f"{newest}T00:00:00+00:00") - keep)
            dropped[table] = 0
            with self.errors_at(table), suppress(CommitFailedError):
                opened = self.opened(table)
                rows = opened.delete(f"{DAY} < '{oldest}'").get("num_deleted_rows")
                dropped[table] = int(rows or 0)
                # Once it says so, no file of such a day can be committed any more: those of nobody go then.
                if opened.metadata().configuration.get(_KEPT_SINCE, "") < oldest:
                    since = {_KEPT_SINCE: oldest}
                    opened.alter.set_table_properties(since, raise_if_not_exists=False)
                self._join(opened, newest)
                opened.vacuum(
                    retention_hours=_REMOVED_FOR_H,
                    dry_run=False,
                    enforce_retention_duration=False,
                )
        return dropped

    def _join(self, opened: Any, newest: str) -> None:
        """Days that are over get no more files, and need no more than a few."""
        files: dict[str, list[int]] = {}
        added: Any = opened.get_add_actions(flatten=True)
        sizes = (added[name].to_pylist() for name in (f"partition.{DAY}", "size_bytes"))
        for day, size in zip(*sizes, strict=True):
            files.setdefault(day, []).append(size)
        for day, mine in files.items():
            if day < newest and len(mine) > 1 and sum(mine) <= _JOINED_BYTES:
                rows = opened.to_pyarrow_dataset().to_table(filter=compute.field(DAY) == day)
                rows = rows.sort_by([("snapshot_time", "ascending"), ("job_name", "ascending")])
                write_deltalake(opened, rows, mode="overwrite", predicate=f"{DAY} = '{day}'")

    @contextmanager
    def errors_at(self, table: str) -> Generator[None]:
        """Tell in one line what libraries say of the place: files that are gone or cut, other columns, no room."""
        try:
            yield
        except (DeltaError, OSError, _ARROW_ERROR) as error:
            seen = " ".join(_COLOURS.sub("", str(error)).split())[:300]
            fix = "room and rights there, its address, or the storage options that it needs"
            if isinstance(error, SchemaMismatchError) or "FieldRef" in seen:
                fix = "another uri: the columns of this table are those of another release"
            raise Unreachable(
                f"table {self.location(table)} of snapshots", seen=seen, fix=fix
            ) from error


def arrow_table(table: str, rows: Sequence[Row]) -> Any:
    """Return rows of one table as a `pyarrow.Table`."""
    schema = pa.schema(_schema(table).to_arrow())

    def filled(column: Any) -> Any:
        if column.name == DAY:
            at = (datetime.fromtimestamp(row["snapshot_time"] / 1000, UTC) for row in rows)
            return pa.array(map(day_of, at), column.type)
        is_time = pa.types.is_timestamp(column.type)
        kind = pa.timestamp("ms", tz="UTC") if is_time else column.type
        return pa.array([row.get(column.name) for row in rows], kind).cast(column.type)

    return pa.Table.from_arrays([filled(column) for column in schema], schema=schema)


_DELTA_TYPES = {"bigint": "long", "int": "integer"}


@cache
def _schema(table: str) -> Schema:
    kinds = (
        (name, PrimitiveType(_DELTA_TYPES.get(kind, kind)), doc)
        for name, kind, doc in TABLES[table]
    )
    return Schema([Field(name, kind, metadata={"comment": doc}) for name, kind, doc in kinds])


def restores(tables: Tables, at: datetime) -> Speeds:
    """Return how fast standbys restored in the day before `at`, by host."""
    restoring = _field("lag_records") > _field("apply_per_s")
    restoring &= (_field("apply_per_s") > _field("write_per_s")) & _field("host").is_valid()
    seen = _day_before(tables, at, restoring, "host", "apply_per_s", "snapshot_time")
    seen = seen.sort_by("snapshot_time")
    newest = seen.slice(max(0, seen.num_rows - MOST_PACES)).to_pylist()
    return speeds(((row["host"], row["apply_per_s"]) for row in newest), (), 0.0)


def earlier_reports(
    tables: Tables, jobs: Collection[str], at_ms: int, since_ms: int, before_ms: int
) -> dict[ReplicaId, tuple[ReplicaReport, ...]]:
    """Return reports of standbys that came from `since_ms` on, in order.

    `jobs` are names, `at_ms` is now; of a report that several snapshots had there is one.
    """
    came = _field("came_at")
    mine = (came >= compute.scalar(_time(since_ms))) & (came < compute.scalar(_time(before_ms)))
    mine &= _field("job_name").isin(sorted(jobs)) & _field("end_offset").is_valid()
    columns = ("came_at", "process", "applied_offset", "beginning_offset", "end_offset")
    found = _day_before(tables, _time(at_ms), mine, *_REPLICA, *columns).sort_by("came_at")
    reports: dict[ReplicaId, dict[datetime, ReplicaReport]] = {}
    for row in found.to_pylist():
        came_at, process, *offsets = (row[name] for name in columns)
        one = ReplicaReport(_ms(came_at), process or "", *offsets)
        reports.setdefault(_replica(row), {})[came_at] = one
    return {replica: tuple(known.values()) for replica, known in reports.items()}


def last_heard_ms(
    tables: Tables, replicas: Collection[ReplicaId], at_ms: int
) -> dict[ReplicaId, int]:
    """Return when the newest report or commit of these replicas came, by the snapshots of the last day."""
    mine = _field("task_name").isin(sorted({task for _, _, task, _ in replicas}))
    mine &= _field("observed_at").is_valid()
    heard: dict[ReplicaId, int] = {}
    found = _day_before(tables, _time(at_ms), mine, *_REPLICA, "came_at", "observed_at")
    for row in found.to_pylist():
        replica = _replica(row)
        if replica in replicas:
            heard_ms = _ms(row["came_at"] or row["observed_at"])
            heard[replica] = max(heard_ms, heard.get(replica, 0))
    return {replica: ms for replica, ms in heard.items() if ms < at_ms}


def _day_before(tables: Tables, at: datetime, wanted: Any, *columns: str) -> Any:
    """Read rows of the lags that snapshots had in the day before `at`, as a `pyarrow.Table`."""
    time, day = _field("snapshot_time"), _field("snapshot_day")
    wanted &= (day >= day_of(at - REMEMBERED)) & (day <= day_of(at))
    wanted &= (time > compute.scalar(at - REMEMBERED)) & (time < compute.scalar(at))
    opened = tables.opened(_TABLE)
    with tables.errors_at(_TABLE):
        return opened.to_pyarrow_dataset().to_table(columns=list(columns), filter=wanted)


def _replica(row: Mapping[str, Any]) -> ReplicaId:
    return row["job_name"], row["job_id"], row["task_name"], row["store"]


def _ms(at: datetime) -> int:
    return round(1000 * at.timestamp())


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
