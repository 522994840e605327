"""`samza-dagster doctor`: whether a job's brokers allow what its config asks for."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import busy, notice, print_json, print_table
from samza_dagster.errors import InvalidInput, MalformedRecord, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from samza_dagster.client import JobView
    from samza_dagster.coordinator.diagnosis import Finding


@click.command()
@click.option("--config", type=click.Path(path_type=Path), required=True, help="The job's config.")
@json_option
def doctor(config: Path, as_json: bool) -> None:
    """Check that the brokers allow what a job's config asks for.

    With samza.dagster.fencing=broker that includes a rehearsal: a principal is created, let
    in, shut out, seen refused by every broker, and removed. The login is the coordinator's
    (SAMZA_DAGSTER_CLIENT_CONFIG). Topics that lack replicas, of those that are wanted or in sync, are
    told with the command that mends them. Where containers report, the clocks of their hosts are
    held against each other's and this machine's, by the reports that are there. Of a job that Samza's own Application Master runs
    only what that one needs is asked, and YARN where its address is given
    (SAMZA_DAGSTER_YARN_RESOURCE_MANAGER). Exit code 1 when a condition doesn't hold, 4
    when none is known not to, and something can't be read.

    \b
    Examples:
      samza-dagster doctor --config job.properties
      samza-dagster doctor --config job.properties --json
    """
    from samza_dagster.coordinator.diagnosis import report

    unread: list[Unreachable] = []
    with busy("Asking the brokers …"):
        found = list(_as_far_as_read(report(config), unread))
    with busy("Reading what the hosts have reported …"):
        found += _as_far_as_read(job_findings(config), unread)
    broken = any(not each.ok for each in found)
    if as_json:
        print_json(
            {
                "ok": not broken and not unread,
                "checks": [asdict(each) for each in found],
                "unread": [error.to_json() for error in unread],
            }
        )
    else:
        known = "What is known holds" if unread else "Every condition holds"
        print_table(
            "A condition doesn't hold" if broken else known,
            ("check", "holds", "seen", "fix"),
            [(f.check, "yes" if f.ok else "NO", f.seen, "" if f.ok else f.fix) for f in found],
        )
        for error in unread:
            notice(f"Warning: not known: {error}")
    if broken or unread:
        raise click.exceptions.Exit(1 if broken else Unreachable.exit_code)


def _as_far_as_read(found: Iterator[Finding], unread: list[Unreachable]) -> Iterator[Finding]:
    """The findings up to the first that can't be told; why goes to `unread`."""
    try:
        yield from found
    except Unreachable as error:
        unread.append(error)


def job_findings(config: Path) -> Iterator[Finding]:
    """Whether the hosts' clocks agree, and Samza's AM can serve.

    None of a clock while nobody reports, and none at all before a job's first deployment, which
    this command is for, too. Raises `Unreachable`.
    """
    from samza_dagster.client import PlacementClient
    from samza_dagster.client.access import wall_clock_ms
    from samza_dagster.client.host_clocks import disagreements
    from samza_dagster.metadata.connection import Connection

    connection = Connection.from_properties(config, os.environ)
    with PlacementClient(connection) as client:
        try:
            view = client.known_view()
        except MalformedRecord:
            raise
        except InvalidInput:  # no coordinator stream yet, or another job's, which is told before
            return
        yield from poison_findings(view)
        reports, unread = client.reports()
        yield from judged(disagreements(reports, wall_clock_ms()))
        if unread:
            raise unread[0]


def poison_findings(view: JobView) -> Iterator[Finding]:
    """Whether Samza's AM, where it coordinates, gets past every placement record."""
    from samza_dagster.coordinator.diagnosis import Finding

    if not view.capabilities.rules_before_stop:
        seen = "; ".join(f"{key}: {why}" for key, why in view.poison.items())
        yield Finding(
            "Samza's AM can serve placement requests",
            not view.poison,
            seen or "it can read every record",
            "samza-dagster gc removes what it throws at (--dry-run shows it)",
        )


def judged(disagreements: Mapping[str, str]) -> list[Finding]:
    """One line for each host that has reported."""
    from samza_dagster.coordinator.diagnosis import Finding

    return [
        Finding(
            f"the clock of {host} is within 5 s of the others'",
            not seen,
            seen or "its reports show nothing else",
            "synchronise it (chronyd, ntpd), or what it is held against; no placement is decided by it",
        )
        for host, seen in sorted(disagreements.items())
    ]
