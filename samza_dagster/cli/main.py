"""`samza-dagster`: subcommands are imported when they are used, so that `--help` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from samza_dagster.cli.reporting import Reporting
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.version import __version__


class _Command(NamedTuple):
    """Its line in `--help`, where it is, and the extra that brings what it imports.

    `place` is `module:attribute`; by default both have the command's name, beside this module.
    """

    summary: str
    place: str = ""
    extra: str = ""


_OWN = "samza_dagster.cli.own_requests"
_COMMANDS = {
    "place": _Command("Move or restart a container."),
    "fail-over": _Command("Start an active on the host of its standby.", f"{_OWN}:fail_over"),
    "control-standby": _Command(
        "Spin up one more standby, or stop one.", f"{_OWN}:control_standby"
    ),
    "commit": _Command("Let a held reservation go on.", f"{_OWN}:commit"),
    "release": _Command("Give a held reservation back.", f"{_OWN}:release"),
    "cancel": _Command("End a request that waits or reserves.", f"{_OWN}:cancel"),
    "status": _Command("Show a request, a processor or the job."),
    "explain": _Command(
        "Say which hosts may take a container, and why.", "samza_dagster.cli.place:explain"
    ),
    "locality": _Command("Show where containers and tasks are."),
    "lag": _Command("Show how far each replica is behind its changelog."),
    "snapshots": _Command("Keep tables of where a fleet is and how far behind.", extra="spark"),
    "verify": _Command("Check the job's audit history."),
    "gc": _Command("Remove finished placement messages."),
    "instance": _Command("Write the dagster.yaml of a Dagster instance."),
    "doctor": _Command(
        "Check machine, brokers, job and coordinator; say what mends them.", extra="coordinator"
    ),
    "config": _Command("Show what is configured, and where it was said."),
    "monitoring": _Command("Write alert rules for Prometheus and a dashboard for Grafana."),
    "coordinator": _Command("Run the job coordinator.", "samza_dagster.cli.main:coordinator"),
    "shadow": _Command("Sum up what a shadow of a job has seen."),
    "agent": _Command("Run the agent of a host, or make one file of it."),
    "processor": _Command("Run a standalone processor over ZooKeeper, or show its group."),
    "sandbox": _Command(
        "Run Kafka and a job on this machine.", "samza_dagster.sandbox.commands:sandbox", "sandbox"
    ),
    "demo": _Command(
        "Show moves and a failover on the sandbox.",
        "samza_dagster.sandbox.demo.command:demo_command",
        "sandbox",
    ),
}


def load(place: str, extra: str) -> click.Command:
    """The command at `module:attribute`.

    Raises `MissingPrerequisite` that names the extra when a library isn't installed.
    """
    module, _, attribute = place.partition(":")
    try:
        command: click.Command = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        fix = f"pip install 'samza_dagster[{extra}]'" if extra else "install samza_dagster anew"
        seen = f"no module {error.name}"
        raise MissingPrerequisite(f"load {module}", seen=seen, fix=fix) from error
    return command


class _LazyGroup(Reporting, click.Group):
    """A group whose help names the commands of its table without importing them."""

    def __init__(self, *args: Any, table: Mapping[str, _Command], **options: Any) -> None:
        super().__init__(*args, **options)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command."""
        if cmd_name not in self._table:
            return None
        command = self._table[cmd_name]
        place = command.place or f"samza_dagster.cli.{cmd_name}:{cmd_name}"
        return load(place, command.extra)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._table.items()])


_RUN = _Command(
    "Coordinate one job.", "samza_dagster.coordinator.command:run_command", "coordinator"
)
_END = _Command(
    "End one job in order.", "samza_dagster.coordinator.command:end_command", "coordinator"
)


@click.group(cls=_LazyGroup, table={"run": _RUN, "end": _END})
def coordinator() -> None:
    """The job coordinator.

    \b
    Example:
      samza-dagster coordinator run --help
      samza-dagster coordinator end --help
    """


@click.group(
    "samza-dagster",
    cls=_LazyGroup,
    table=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 bad usage or request, 3 timed out, 4 unreachable.",
)
@click.version_option(__version__, prog_name="samza-dagster")
def cli() -> None:
    """Placement of Samza containers: planned moves, restarts, standbys and their lag.

    \b
    Examples:
      samza-dagster status --bootstrap-servers localhost:9092 --job-name wordcount
      samza-dagster explain 0 --to host-3
      samza-dagster place 0 --to host-3 --timeout 120
      samza-dagster lag --config job.properties --json
    """


def main(*args: Any, **extra: Any) -> Any:
    """The console script `samza-dagster`."""
    return cli.main(*args, prog_name="samza-dagster", **extra)


if __name__ == "__main__":
    main()
