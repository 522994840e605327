"""Tables of a run: the map of hosts and containers, the timeline, the seconds of each phase."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import dagster as dg

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.show.map_picture import shown_map, shown_maps

MOST_OF_MAP = 190_000
"""Bytes of the map, pictures and text; with its table and the rest of an event below 300 kB."""
MOST_OF_MAP_TABLE = 35_000
_OF_A_RECORD = 60  # bytes that Dagster writes around each row
Scalar = str | int | float | bool | None


def map_markdown(hosts: Sequence[HostRow]) -> str:
    """Hosts and containers as a Markdown table."""
    lines = ["| host | state | containers |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {r.host} | {r.state} | {_cell(r)} |" for r in hosts)])


def map_table(
    before: Sequence[HostRow], after: Sequence[HostRow], most_bytes: int = MOST_OF_MAP_TABLE
) -> dg.TableMetadataValue:
    """The same as a table: host, before, after, changed; those that changed first when not all have room."""
    was = {r.host: r for r in before}
    now = {r.host: r for r in after}
    rows = [
        {
            "host": host,
            "before": _cell(was.get(host)),
            "after": _cell(now.get(host)),
            "changed": _cell(was.get(host)) != _cell(now.get(host)),
        }
        for host in sorted({*was, *now})
    ]
    columns = ("host", "before", "after", "changed")
    if len(json.dumps(rows)) + _OF_A_RECORD * len(rows) > most_bytes:
        rows.sort(key=lambda row: not row["changed"])
    return table_within(rows, columns, most_bytes)


def hosts_table(hosts: Sequence[HostRow]) -> dg.TableMetadataValue:
    """Hosts as they are: host, state, containers; the table in which a container is found."""
    rows = [{"host": r.host, "state": r.state, "containers": _cell(r)} for r in hosts]
    return table_within(rows, ("host", "state", "containers"), MOST_OF_MAP_TABLE)


def map_shown(
    before: Sequence[HostRow],
    after: Sequence[HostRow] | None = None,
    most_bytes: int = MOST_OF_MAP,
    most_of_one: int = 0,
) -> dg.MarkdownMetadataValue:
    """Pictures of the map, where they have room in `most_bytes`; beside it stands a table in any case.

    One picture alone may have `most_of_one`, if that is more.
    """
    drawn = shown_map(before) if after is None else shown_maps(before, after, most_bytes)
    if len(json.dumps(drawn)) > max(most_bytes, most_of_one):
        drawn = (
            "A picture of so many hosts has no room here: the table of hosts on this page has them."
        )
    return dg.MetadataValue.md(drawn)


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    descriptions: Mapping[str, str] | None = None,
) -> dg.TableMetadataValue:
    """Rows as a metadata table; values that a table can't hold become text.

    `told` says what a column holds; the UI shows it with the schema.
    """
    records = [
        dg.TableRecord({column: _scalar(row.get(column)) for column in columns}) for row in rows
    ]
    schema = dg.TableSchema(
        columns=[
            dg.TableColumn(
                name, _type_of(records, name), description=(descriptions or {}).get(name)
            )
            for name in columns
        ]
    )
    return dg.MetadataValue.table(records=records, schema=schema)


def table_within(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    most_bytes: int,
    descriptions: Mapping[str, str] | None = None,
) -> dg.TableMetadataValue:
    """The same, of as many rows as fit; a last row says how many more there are."""
    fit = _fitting((len(json.dumps(row, default=str)) + _OF_A_RECORD for row in rows), most_bytes)
    if fit == len(rows):
        return table(rows, columns, descriptions)
    more = {columns[0]: "…", columns[1]: f"and {len(rows) - fit:,} more"}
    return table([*rows[:fit], more], columns, descriptions)


def lines_within(lines: Sequence[str], most_bytes: int, more: str) -> list[str]:
    """Return as many lines as fit; the last one then is `more`, with the number of the others for `{}`."""
    fit = _fitting((len(line.encode()) + 1 for line in lines), most_bytes)
    if fit == len(lines):
        return [*lines]
    return [*lines[:fit], more.format(f"{len(lines) - fit:,}")]


def _fitting(sizes: Iterable[int], most_bytes: int) -> int:
    return sum(end <= most_bytes for end in accumulate(sizes))


def _scalar(value: object) -> Scalar:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _type_of(records: Sequence[dg.TableRecord], column: str) -> str:
    values = [r.data[column] for r in records if r.data[column] is not None]
    if values and all(isinstance(v, bool) for v in values):
        return "bool"
    if values and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return "int"
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return "float"
    return "string"


def _cell(row: HostRow | None) -> str:
    return ", ".join(row.containers) if row is not None and row.containers else "-"
