"""`samza-dagster incidents`: what `auto_failover` told of a job, and what became of each of it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samza_dagster.cli.dagster_instance import dagster_instance, home_option
from samza_dagster.cli.options import job_options, json_option, prefix_option
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.configuration import variable
from samza_dagster.errors import InvalidInput

if TYPE_CHECKING:
    from dagster import AssetObservation

_KEPT = ("suspect", "signal", "subject", "processor", "host", "action", "verdict", "why")


@click.command()
@job_options
@prefix_option
@home_option
@json_option
def incidents(*, job: str, prefix: str, home: Path, as_json: bool) -> None:
    """Show each trouble that auto_failover told: what it would ask, and what was done, and when.

    By it a job goes from mode shadow to advise and to act: how long a trouble went on after the
    sensor would have acted, and how often nothing was needed. One without an end is open. Reads the Dagster
    instance alone.

    \b
    Examples:
      samza-dagster incidents --job-name orders
      samza-dagster incidents --job-name orders --json | jq .summary
    """
    from samza_dagster.orchestration.history.names import HISTORY
    from samza_dagster.orchestration.names import asset_key
    from samza_dagster.orchestration.watch import reported

    if not job:
        raise InvalidInput(
            "incidents of which job",
            seen="no job's name",
            fix=f"--job-name NAME, or {variable('job_name')}",
        )
    with busy("Reading the Dagster instance …"), dagster_instance(home) as instance:
        events = reported.history(instance, asset_key(prefix, HISTORY))
    found = incidents_of((event for _, event in events), job)
    cut = len(events) >= reported.MOST_READ
    if as_json:
        head = {"job": job, "summary": summary(found), "cut": cut}
        print_json({**head, "incidents": found})
        return
    print_table(
        f"Incidents of {job}",
        ("told", "signal", "about", "verdict", "would ask", "outcome", "done", "s late"),
        [
            (
                at(one["reported_ms"]),
                *(one[name] for name in ("signal", "subject", "verdict", "action")),
                *(one[name] for name in ("outcome", "done", "late_s")),
            )
            for one in reversed(found)
        ],
        spare=("done", "verdict"),
    )
    if cut:
        notice(f"only the newest {len(events):,} events were read: there may be older ones")


def incidents_of(events: Iterable[AssetObservation], job: str) -> list[dict[str, Any]]:
    """Return each trouble of a job from its first report to its end, oldest first.

    Times are ms since the epoch, `would_ms` that at which its run would have been requested, had the
    mode been `act`. `late_s` is from then to the end of one that was moved or restarted.
    """
    from samza_dagster.orchestration.tags import EVENT
    from samza_dagster.orchestration.watch import reported

    found: list[dict[str, Any]] = []
    opened: dict[str, dict[str, Any]] = {}
    for event in events:
        kind, suspect = event.tags.get(EVENT), reported.text(event, "suspect")
        at_ms = reported.time_ms(event.metadata, reported.REPORTED_AT)
        if reported.text(event, "job") != job or kind not in (reported.DECIDED, reported.RECOVERED):
            continue
        if kind == reported.DECIDED and suspect not in opened:
            opened[suspect] = {
                **{name: reported.text(event, name) for name in _KEPT},
                "reported_ms": at_ms,
                "would_ms": None,
                "over_ms": None,
                "late_s": None,
                "outcome": reported.Outcome.OPEN.value,
                "done": "",
            }
            found.append(opened[suspect])
        if kind == reported.DECIDED:
            opened[suspect] |= _decided(opened[suspect], event, at_ms)
        elif one := opened.pop(suspect, None):
            one |= {name: reported.text(event, name) for name in ("outcome", "done")} | {
                "over_ms": at_ms
            }
            if one["would_ms"] is not None and one["outcome"] == reported.Outcome.REPLACED:
                one["late_s"] = (at_ms - one["would_ms"]) / 1000
    return found


def _decided(one: Mapping[str, Any], event: AssetObservation, at_ms: int) -> dict[str, Any]:
    """Return what a decision changes: what is asked, or would be, counts; that it is watched doesn't."""
    from samza_dagster.orchestration.watch import reported
    from samza_dagster.orchestration.watch.failover import FailoverVerdict
    from samza_dagster.orchestration.watch.remedies import NOTHING

    verdict, action = reported.text(event, "verdict"), reported.text(event, "action")
    if verdict == FailoverVerdict.ASK:
        return {"verdict": verdict, "action": action, "would_ms": None}
    is_advice = verdict in (FailoverVerdict.ADVISE, FailoverVerdict.SHADOW)
    if one["verdict"] == FailoverVerdict.ASK or not is_advice:
        return {}
    would_ms = one["would_ms"] or (at_ms if action != NOTHING else None)
    return {"verdict": verdict, "action": action, "would_ms": would_ms}


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the outcomes, and return the median of `late_s`."""
    late = [one["late_s"] for one in found if one["late_s"] is not None]
    return {
        "incidents": len(found),
        "outcomes": dict(Counter(one["outcome"] for one in found)),
        "late_s_median": statistics.median(late) if late else None,
    }
