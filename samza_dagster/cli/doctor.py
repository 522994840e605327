"""`samza-dagster doctor`: whether a job's brokers allow what its config asks for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import busy, print_json, print_table


@click.command("doctor", short_help="Check that the brokers allow what a job's config asks for.")
@click.option("--config", type=click.Path(path_type=Path), required=True, help="The job's config.")
@json_option
def doctor(config: Path, as_json: bool) -> None:
    """Check that the brokers allow what a job's config asks for.

    With samza.dagster.fencing=broker that includes a rehearsal: a principal is created, let
    in, shut out, seen refused by every broker, and removed. The login is the coordinator's
    (SAMZA_DAGSTER_CLIENT_CONFIG). Exit code 1 when a condition doesn't hold.

    \b
    Examples:
      samza-dagster doctor --config job.properties
      samza-dagster doctor --config job.properties --json
    """
    from samza_dagster.coordinator.diagnosis import report

    with busy("Asking the brokers …"):
        found = report(config)
    well = all(each.ok for each in found)
    if as_json:
        print_json({"ok": well, "checks": [asdict(each) for each in found]})
    else:
        print_table(
            "Every condition holds" if well else "A condition doesn't hold",
            ("check", "holds", "seen", "fix"),
            [(f.check, "yes" if f.ok else "NO", f.seen, "" if f.ok else f.fix) for f in found],
        )
    if not well:
        raise click.exceptions.Exit(1)
