"""`samza-dagster incidents`: what `auto_failover` told of a job, and what became of each of it."""

from __future__ import annotations

from pathlib import Path

import click

from samza_dagster.cli.dagster_instance import dagster_instance, home_option
from samza_dagster.cli.options import job_options, json_option, prefix_option
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.configuration import variable
from samza_dagster.errors import InvalidInput


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
    found = reported.incidents((event for _, event in events), job)
    cut = len(events) >= reported.MOST_READ
    if as_json:
        head = {"job": job, "summary": reported.summary(found), "cut": cut}
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
