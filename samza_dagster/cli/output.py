"""What a command writes: results to stdout, progress and notices to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click
from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_LAST_MS = 253_402_300_799_999  # the year 9999 ends
_PIPE_WIDTH = 100_000
"""Wide enough that no line of a table is ever wrapped for a program that reads it."""


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    spare: Sequence[str] = (),
) -> None:
    """A table on stdout; None and empty show as `-`. No cell is read as markup.

    On a terminal that is too narrow the columns named in `spare` are left out, the
    first named first, and told on stderr; then prose is wrapped, names and numbers last.
    Into a pipe or a file goes every column, a line per row, without borders.
    """
    shown = [["-" if cell in (None, "") else str(cell) for cell in row] for row in rows]
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=_PIPE_WIDTH)
    left_out: list[str] = []
    unbounded = console.options.update(width=_PIPE_WIDTH)
    table = _table(columns, shown, console)
    for name in spare:
        if console.measure(table, options=unbounded).maximum <= console.width:
            break
        left_out.append(name)
        table = _table(columns, shown, console, left_out)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
    if left_out:
        notice(f"(no room for: {', '.join(left_out)}; a wider terminal, a pipe or --json has them)")


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    console: Console,
    left_out: Sequence[str] = (),
) -> Table:
    kept = [number for number, name in enumerate(columns) if name not in left_out]
    table = Table(box=HEAVY_HEAD if console.is_terminal else None, pad_edge=console.is_terminal)
    for number in kept:
        is_prose = any(" " in row[number] for row in rows)
        table.add_column(columns[number], overflow="fold", no_wrap=not is_prose)
    for row in rows:
        table.add_row(*(Text(row[number]) for number in kept))
    return table


def notice(text: str) -> None:
    """One line on stderr."""
    click.echo(text, err=True)


@contextmanager
def busy(what: str) -> Generator[None]:
    """A spinner on stderr while the block runs, on a terminal only."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield


def at(ms: int | None) -> str:
    """Ms since the epoch as UTC time to the millisecond; a number out of range as it is."""
    if ms is None:
        return ""
    if not 0 <= ms <= _LAST_MS:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
