"""`samza-dagster coordinator run …`."""

from __future__ import annotations

import click

from samza_dagster.cli.main import load


class _Coordinator(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """`run` alone."""
        return ["run"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the coordinator's command."""
        if cmd_name != "run":
            return None
        return load("samza_dagster.coordinator.command:run_command", "coordinator")


@click.command(cls=_Coordinator)
def coordinator() -> None:
    """The job coordinator.

    \b
    Example:
      samza-dagster coordinator run --help
    """
