"""`--watch`: a view that is shown again and again until it can't change, or Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from samza_dagster.cli.options import gathered
from samza_dagster.cli.output import drawn_for, notice
from samza_dagster.errors import SamzaDagsterError


def _every(watch: bool, interval: float) -> float | None:
    return interval if watch else None


watch_options = gathered(
    "every",
    _every,
    click.option(
        "--watch", is_flag=True, help="Show it again and again, until it has ended or Ctrl-C."
    ),
    click.option(
        "--interval",
        type=click.FloatRange(min=0.2, max=3600),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="With --watch: the time between two looks.",
    ),
)
"""Adds `--watch` and its interval; the command gets `every`, in seconds, None without `--watch`."""


def watch(show: Callable[[], bool], every: float) -> None:
    """Calls `show`, which writes a view, every so many seconds until it returns False.

    On a terminal each view takes the place of the one before, which stays when it ends; into a pipe
    or a file they follow one another. The first error ends it; a later one is shown, since a broker
    that is away comes back, and the watch would have to be restarted.
    """
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        _repeat(lambda first: _shown(show, first), every)
        return
    with Live(console=console, auto_refresh=False) as live:

        def draw(first: bool) -> bool:
            page = io.StringIO()
            with (
                drawn_for(console, page),
                contextlib.redirect_stdout(page),
                contextlib.redirect_stderr(page),
            ):
                goes_on = _shown(show, first)
            now = datetime.now(UTC).strftime("%H:%M:%S")
            head = Text(f"{now} UTC, every {every:g} s; Ctrl-C ends it", style="dim")
            body = Text.from_ansi(page.getvalue())
            live.update(Text("\n").join([head, body]), refresh=True)
            return goes_on

        _repeat(draw, every)


def _repeat(look: Callable[[bool], bool], every: float) -> None:
    first = True
    while look(first):
        first = False
        time.sleep(every)


def _shown(show: Callable[[], bool], first: bool) -> bool:
    """Show once and return whether to go on; data that can't be read for now doesn't end it."""
    try:
        return show()
    except click.exceptions.Exit:
        return True  # a view in part, which says what is missing
    except SamzaDagsterError as error:
        if first:
            raise
        notice(f"Warning: {error}")
        return True
