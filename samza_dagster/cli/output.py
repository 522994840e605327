"""What a command writes: results to stdout, progress and notices to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 200


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; None and empty show as `-`. No cell is read as markup."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if cell in (None, "") else str(cell)) for cell in row))
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=_PIPE_WIDTH)
    console.print(table)


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
    """Ms since the epoch as UTC time to the millisecond."""
    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
