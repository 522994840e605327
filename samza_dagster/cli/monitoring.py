"""`samza-dagster monitoring`: what Prometheus and Grafana are given."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import notice, print_json
from samza_dagster.errors import InvalidInput

FILES = {
    "prometheus.yml": "what to add to Prometheus' configuration: the rules, and the targets to scrape",
    "samza_dagster_alerts.yml": "alert rules; what to do about each is in docs/operations/monitoring.md",
    "samza_dagster_dashboard.json": "the dashboard: Grafana, Dashboards, Import",
}


def content(name: str) -> bytes:
    """Return one of `FILES`, as the package has it."""
    return (files("samza_dagster") / "monitoring" / name).read_bytes()


@click.group()
def monitoring() -> None:
    """Alert rules for Prometheus and a dashboard for Grafana.

    \b
    Example:
      samza-dagster monitoring write /etc/prometheus/samza_dagster
    """


@monitoring.command("write")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def write(directory: Path, as_json: bool) -> None:
    """Write alert rules, dashboard and an example of a configuration into DIRECTORY.

    It is made if it isn't there; files that are there are replaced.

    \b
    Examples:
      samza-dagster monitoring write monitoring
      samza-dagster monitoring write /etc/prometheus/samza_dagster --json
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (directory / name).write_bytes(content(name))
    except OSError as error:
        raise InvalidInput(
            f"write into {directory}",
            seen=f"{error.filename or directory}: {error.strerror or error}",
            fix="a directory that may be written, or that can be made",
        ) from error
    if as_json:
        print_json({"directory": str(directory), "files": FILES})
        return
    for name, what in FILES.items():
        notice(f"wrote {directory / name}: {what}")
