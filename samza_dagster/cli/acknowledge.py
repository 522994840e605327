"""`samza-dagster acknowledge`: lifts the block that an automatic failover left on a group."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

import click

from samza_dagster.cli.completion import processors
from samza_dagster.cli.dagster_instance import dagster_instance, home_option, require_instance
from samza_dagster.cli.options import Target, json_option, prefix_option, target_options
from samza_dagster.cli.output import busy, notice, print_json
from samza_dagster.errors import InvalidInput


@click.command()
@click.argument("processor", shell_complete=processors)
@click.option("--reason", required=True, metavar="TEXT", help="What was found or done.")
@click.option("--ticket", default="", metavar="TEXT", help="Ticket or change number.")
@home_option
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
    home: Path,
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
    require_instance(home)
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
        with dagster_instance(home) as instance:
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
