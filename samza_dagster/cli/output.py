"""Output of commands: results to stdout, progress and notices to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import click
from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_LAST_MS = 253_402_300_799_999  # the year 9999 ends
_PIPE_WIDTH = 100_000
"""Wide enough that no line of a table is ever wrapped for a program that reads it."""
_PROSE_WIDTH = 20
"""Narrower than that a column of sentences is a chore to read."""
_page: ContextVar[Console | None] = ContextVar("page", default=None)


def print_json(document: object) -> None:
    """Print a JSON document on stdout, in ASCII: any terminal has that."""
    click.echo(json.dumps(document, indent=2))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    spare: Sequence[str] = (),
) -> None:
    """A table on stdout; None and empty show as `-`. No cell is read as markup.

    On a terminal that is too narrow the columns named in `spare` are left out, the
    first named first, and told on stderr. Prose is wrapped; a name or a number is never cut: where
    these alone are too wide, each row is folded into lines of its own, with every column.
    Into a pipe or a file goes every column, a line per row, without borders.
    """
    shown = [["-" if cell in (None, "") else str(cell) for cell in row] for row in rows]
    console = _console()
    kept, left_out = list(columns), list[str]()
    table, width = _table(kept, columns, shown, console)
    for name in (each for each in spare if each in columns):
        if width.maximum <= console.width:
            break
        kept.remove(name)
        left_out.append(name)
        table, width = _table(kept, columns, shown, console)
    console.print(Text(title, style="bold"), soft_wrap=True)
    if width.minimum > console.width:
        for row in shown:
            console.print(_folded(columns, row))
        return
    console.print(table)
    if left_out:
        notice(f"(no room for: {', '.join(left_out)}; a wider terminal, a pipe or --json has them)")


def _console() -> Console:
    """Stdout: the terminal, the page that is drawn for one, or a pipe, in which no line is too long."""
    page = _page.get()
    if page is not None:
        return page
    console = Console(file=sys.stdout)
    return console if console.is_terminal else Console(file=sys.stdout, width=_PIPE_WIDTH)


@contextmanager
def drawn_for(terminal: Console, page: TextIO) -> Generator[None]:
    """Tables of the block are written to `page` as they fit `terminal`."""
    drawn = Console(
        file=page, force_terminal=True, width=terminal.width, no_color=terminal.no_color
    )
    before = _page.set(drawn)
    try:
        yield
    finally:
        _page.reset(before)


def _table(
    names: Sequence[str], columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console
) -> tuple[Table, Measurement]:
    """The columns of these names as a table, and how narrow and how wide that may be."""
    table = Table(box=HEAVY_HEAD if console.is_terminal else None, pad_edge=console.is_terminal)
    for name in names:
        cells = [row[columns.index(name)] for row in rows]
        content = max(map(cell_len, cells), default=0)
        is_prose = any(" " in cell for cell in cells)
        least = min(_PROSE_WIDTH, content) if is_prose else content
        table.add_column(name, overflow="fold", min_width=least, no_wrap=not is_prose)
    for row in rows:
        table.add_row(*(Text(row[columns.index(name)]) for name in names))
    unbounded = console.options.update(width=_PIPE_WIDTH)
    return table, Measurement.get(console, unbounded, table)


def _folded(columns: Sequence[str], row: Sequence[str]) -> Table:
    """A row as lines `column  cell`, those without a cell left out."""
    lines = Table.grid(padding=(0, 1))
    lines.add_column(no_wrap=True, style="dim")
    lines.add_column(overflow="fold")
    lines.add_row(Text(columns[0]), Text(row[0], style="bold"))
    for name, cell in list(zip(columns, row, strict=True))[1:]:
        if cell != "-":
            lines.add_row(Text(f"  {name}"), Text(cell))
    return lines


def notice(text: str) -> None:
    """Print a line on stderr."""
    click.echo(text, err=True)


@contextmanager
def busy(what: str) -> Generator[None]:
    """A spinner on stderr while the block runs, on a terminal only."""
    console = Console(file=sys.stderr)
    if not console.is_terminal or _page.get() is not None:
        yield
        return
    if not console.encoding.startswith("utf"):
        what = what.replace("…", "...")
    spinner = "line" if console.options.ascii_only else "dots"
    with console.status(Text(what), spinner=spinner):
        yield


def at(ms: int | None) -> str:
    """Ms since the epoch as UTC time to the millisecond; a number out of range as it is."""
    if ms is None:
        return ""
    if not 0 <= ms <= _LAST_MS:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
