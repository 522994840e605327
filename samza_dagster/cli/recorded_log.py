"""`samza-dagster simulate --log`: the heart follows what a coordinator recorded."""

from __future__ import annotations

from pathlib import Path

import click

from samza_dagster.cli.output import print_json


def replay_recorded(path: Path, as_json: bool) -> int:
    """Returns 1 when a state differs from what was recorded; the first that does is told."""
    from samza_dagster.simulation.event_log import replay_log

    replayed = replay_log(path)
    if as_json:
        print_json(
            {
                "version": 1,
                "events": replayed.events,
                "terms": replayed.terms,
                "take_overs_judged": replayed.judged,
                "lines_cut_short": list(replayed.cut_short),
                "differs_at_line": replayed.differs,
                "where": replayed.where,
                "expected": replayed.expected,
                "seen": replayed.seen,
            }
        )
        return 0 if replayed.differs is None else 1
    for number in replayed.cut_short:
        click.echo(f"Line {number} was cut short: its writer was killed, its step not committed.")
    if replayed.differs is None:
        terms = f" in {replayed.terms:,} terms, {replayed.judged:,} take-overs judged"
        click.echo(
            f"{replayed.events:,} events{terms if replayed.terms else ''}, every state the same."
        )
    elif replayed.where:
        click.echo(
            f"Line {replayed.differs} took over another state than the term before left: "
            f"{replayed.where} is {replayed.seen}, expected was {replayed.expected}."
        )
    else:
        click.echo(
            f"Line {replayed.differs} gave another state: {replayed.seen}, "
            f"recorded was {replayed.expected}."
        )
    return 0 if replayed.differs is None else 1
