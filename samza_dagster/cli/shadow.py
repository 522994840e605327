"""`samza-dagster shadow report`: what Samza's coordinator did, and what ours would have done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import at, notice, print_json, print_table
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import (
    Downtimes,
    ShadowHistory,
    Summary,
    read_history,
    summary,
)

_COLUMNS = (
    "noticed",
    "kind",
    "container",
    "was on",
    "Samza: host",
    "down s",
    "ours",
    "host",
    "expected s",
    "why",
)
_SINCE = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")


@click.group()
def shadow() -> None:
    """Show what our coordinator would have done for a job that Samza's Application Master leads.

    \b
    Examples:
      samza-dagster coordinator run --config job.properties --shadow
      samza-dagster shadow report shadow.jsonl
    """


@shadow.command("report")
@click.option(
    "--since",
    type=click.DateTime(_SINCE),
    metavar="TIME",
    help="Only what began since then (UTC), as 2026-05-31T18:00.",
)
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def report(file: Path, since: datetime | None, as_json: bool) -> None:
    """Show the events of a shadow's log, and what they add up to.

    Downtime is Samza's as it was measured, expected is ours: the median of a measurement on a small
    cluster, with the time that the rules wait before it. Where nothing was measured it stays empty.

    \b
    Examples:
      samza-dagster shadow report shadow.jsonl
      samza-dagster shadow report --since 2026-05-31 --json shadow.jsonl
    """
    since_ms = 0 if since is None else round(since.replace(tzinfo=UTC).timestamp() * 1000)
    history = read_history(file, since_ms)
    found = summary(history)
    for each in history.unreadable:
        notice(f"Warning: {file}: skipped {each}")
    if as_json:
        print_json(
            {
                "summary": found.to_json(),
                "events": [event.to_json() for event in history.events],
                "unreadable": list(history.unreadable),
            }
        )
        return
    _show(history, found)


def _show(history: ShadowHistory, found: Summary) -> None:
    if history.events:
        print_table(
            "Events",
            _COLUMNS,
            [_row(event) for event in history.events],
            spare=("why", "was on"),
        )
    rows = [(kind, count, *_of(found.samza.get(kind))) for kind, count in found.kinds.items()]
    rows.append(("all", found.events, *_of(found.samza.get("all"))))
    if found.both is not None and found.expected is not None:
        rows.append(("with a figure of ours: Samza", found.both.count, *_of(found.both)))
        rows.append(("with a figure of ours: ours", found.expected.count, *_of(found.expected)))
    if found.events:
        print_table(
            "Downtime of actives",
            ("events", "count", "measured", "median s", "most s", "sum s"),
            rows,
        )
        print_table("What ours would have done", ("action", "events"), list(found.ours.items()))
        click.echo(f"Both chose the same host in {found.same_host} of {found.chosen} events.")
    else:
        click.echo("Nothing happened while a shadow listened.")
    _show_listening(history, found)


def _show_listening(history: ShadowHistory, found: Summary) -> None:
    if not history.spans:
        click.echo("No shadow listened.")
        return
    first, last = history.spans[0], history.spans[-1]
    blind = f", without the brokers for {_long(found.blind_s)}" if found.blind_s else ""
    killed = f"; {found.killed} wrote no closing record" if found.killed else ""
    click.echo(
        f"Listened for {_long(found.listened_s)}{blind}, from {at(first.began_ms)} to {at(last.last_ms)}: "
        f"{found.shadows} shadow{'' if found.shadows == 1 else 's'}{killed}."
    )
    if found.unfinished:
        click.echo(f"{found.unfinished} events weren't over when their shadow ended.")


def _row(event: ShadowEvent) -> tuple[Any, ...]:
    ours = event.ours
    what = (event.message or event.because) if event.kind == "placement" else event.because
    down = event.downtime_s
    return (
        at(event.noticed_ms),
        event.kind,
        event.processor,
        event.host,
        event.samza_host or event.status,
        None if down is None else f"{down:.1f}",
        None if ours is None else ours.action,
        None if ours is None else _host(event),
        None if ours is None or ours.expected_s is None else f"{ours.expected_s:.1f}",
        (ours.because if ours is not None and ours.because else what) or None,
    )


def _host(event: ShadowEvent) -> str:
    ours = event.ours
    assert ours is not None
    if not ours.standby:
        return ours.host
    lag = "lag unknown" if ours.lag is None else f"lag {ours.lag}"
    return f"{ours.host} ({ours.standby}, {lag})"


def _of(known: Downtimes | None) -> tuple[Any, ...]:
    if known is None:
        return 0, None, None, None
    return known.count, known.median_s, known.most_s, known.sum_s


def _long(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
