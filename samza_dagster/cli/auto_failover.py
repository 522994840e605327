"""`samza-dagster acknowledge` and `incidents`: what `auto_failover` did and told, to lift its block and to judge it."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

import click

from samza_dagster.cli.completion import processors
from samza_dagster.cli.instance import dagster_instance, require_instance
from samza_dagster.cli.options import (
    Target,
    job_options,
    json_option,
    prefix_option,
    target_options,
)
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.configuration import variable
from samza_dagster.errors import InvalidInput

_home_option = click.option(
    "--dagster-home",
    envvar="DAGSTER_HOME",
    required=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The Dagster instance whose sensor is meant; by default DAGSTER_HOME.",
)


@click.command()
@click.argument("processor", shell_complete=processors)
@click.option("--reason", required=True, metavar="TEXT", help="What was found or done.")
@click.option("--ticket", default="", metavar="TEXT", help="Ticket or change number.")
@_home_option
@prefix_option
@click.option("--dry-run", is_flag=True, help="Print what it would lift and write nothing.")
@json_option
@target_options
def acknowledge(
    *,
    target: Target,
    processor: str,
    reason: str,
    ticket: str,
    dagster_home: Path,
    prefix: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say that somebody has looked at PROCESSOR's group after auto_failover acted on it.

    Until then the sensor asks nothing more for that group. Writes into the Dagster
    instance alone; the job acknowledge_failover does the same from the UI. Without --prefix
    it counts for every job of that name and id: two clusters may have one each.

    \b
    Examples:
      samza-dagster acknowledge 0 --reason "agent on host-1 restarted" --job-name orders
      samza-dagster acknowledge 0 --reason "looked at" --config job.properties --dry-run
    """
    from samza_dagster.orchestration.config import LONGEST_REASON, LONGEST_WHO
    from samza_dagster.orchestration.history.names import HISTORY
    from samza_dagster.orchestration.names import asset_key
    from samza_dagster.orchestration.watch.reported import acknowledgement

    _check("--reason", reason, 1, LONGEST_REASON)
    _check("--ticket", ticket, 0, LONGEST_WHO)
    require_instance(dagster_home)
    connection = target.connection()
    job = f"{connection.job_name}/{connection.job_id}"
    with target.client() as client, busy("Reading the job …"):
        view = client.view()
    if processor not in view.processors:
        raise InvalidInput(
            f"acknowledge {processor}",
            seen=f"processors {', '.join(sorted(view.processors)) or 'none'}",
            fix="one of these ids",
        )
    event = acknowledgement(
        job,
        view.group_of(processor),
        at_ms=time.time_ns() // 1_000_000,
        who=getpass.getuser(),
        why=reason,
        ticket=ticket,
        key=asset_key(prefix, HISTORY),
    )
    if not dry_run:
        with dagster_instance(dagster_home) as instance:
            instance.report_runless_asset_event(event)
    if as_json:
        group = view.group_of(processor)
        print_json({"job": job, "group": group, "reason": reason, "written": not dry_run})
    else:
        notice(f"{'Would be ' if dry_run else ''}{event.description}")


def _check(option: str, text: str, least: int, longest: int) -> None:
    """Raises `InvalidInput` for a text that the job's form wouldn't take either."""
    if len(text.strip()) < least or len(text) > longest:
        seen = f"{len(text)} characters" if text.strip() else "none but spaces"
        raise InvalidInput(
            f"{option} {text[:longest]!r}", seen=seen, fix=f"{least} to {longest} characters"
        )


@click.command()
@job_options
@prefix_option
@_home_option
@json_option
def incidents(*, job: str, prefix: str, dagster_home: Path, as_json: bool) -> None:
    """Show each trouble that auto_failover told: what it would ask, and what was done, and when.

    By it a job goes from mode shadow to advise and to act: how much sooner the sensor would
    have been, and how often nothing was needed. One without an end is open. Reads the Dagster
    instance alone.

    \b
    Examples:
      samza-dagster incidents --job-name orders
      samza-dagster incidents --job-name orders --json | jq .summary
    """
    from samza_dagster.orchestration.history.names import HISTORY
    from samza_dagster.orchestration.names import asset_key
    from samza_dagster.orchestration.watch.score import incidents as incidents_of
    from samza_dagster.orchestration.watch.score import summary
    from samza_dagster.orchestration.watch.stored import InstanceEvents

    if not job:
        raise InvalidInput(
            "incidents of which job",
            seen="no job's name",
            fix=f"--job-name NAME, or {variable('job_name')}",
        )
    with busy("Reading the Dagster instance …"), dagster_instance(dagster_home) as instance:
        log = InstanceEvents(instance, asset_key(prefix, HISTORY)).read(0)
    found = incidents_of(reversed(log.events), job)
    if as_json:
        told = {"job": job, "summary": summary(found), "cut": log.cut}
        print_json({**told, "incidents": [one.to_json() for one in found]})
        return
    print_table(
        f"Incidents of {job}",
        ("told", "signal", "about", "verdict", "would ask", "outcome", "done", "s sooner"),
        [
            (
                *(at(one.told_ms), one.signal, one.subject, one.verdict, one.action),
                *(one.outcome, one.done, one.sooner_s),
            )
            for one in reversed(found)
        ],
        spare=("done", "verdict"),
    )
    if log.cut:
        notice(f"only the newest {len(log.events):,} events were read: there may be older ones")
