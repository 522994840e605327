"""`python -m tests.simulation --standalone`: groups of standalone processors in virtual time."""

from __future__ import annotations

import logging
import time
from collections import Counter

import click

from samza_dagster.cli.output import notice
from tests.simulation.report import SimulationReport
from tests.simulation.standalone_world import GroupViolation, world_of

_EVENTS_OF_A_HISTORY = 1_000
_MOST_BROKEN = 5


def simulate_standalone(seed: int, events: int, report: SimulationReport) -> int:
    """Histories from `seed` on until so many events have happened; 1 when one broke an invariant."""
    # The very code of processors runs here, and a virtual ZooKeeper fails all the time.
    for room in ("metadata", "standalone"):
        logging.getLogger(f"samza_dagster.{room}").setLevel(logging.CRITICAL)
    began, done, percent, histories, agreed = time.monotonic(), 0, 0, 0, 0
    broken: list[str] = []
    answers = Counter[str]()
    while done < events and len(broken) < _MOST_BROKEN:
        number = seed + histories
        world = world_of(number)
        try:
            world.run(_EVENTS_OF_A_HISTORY)
        except GroupViolation as error:
            broken.append(str(error))
            notice(str(error))
        histories += 1
        done += world.events
        agreed += world.versions_agreed
        answers += world.answers
        if not report.quiet and 100 * done // events >= percent + 5:
            percent = 100 * done // events
            click.echo(f"{percent:3d} %  {done:,} events, {len(broken)} broken", err=True)
    document = {
        "events": done,
        "histories": histories,
        "versions_agreed": agreed,
        "requests": dict(answers),
        "violations": broken,
        "seconds": round(time.monotonic() - began, 1),
    }
    shown = (
        f"{done:,} events in {histories:,} histories, {agreed:,} versions agreed on, "
        f"{answers.total():,} requests: {len(broken)} broken"
    )
    report.end(document, lambda: click.echo(shown))
    return 1 if broken else 0
