"""`samza-dagster`: subcommands are imported when they are used, so that `--help` is quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from samza_dagster.cli.reporting import Reporting
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.version import __version__

# Name → where the command is, its line in `--help`, the extra that brings what it imports.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "place": ("samza_dagster.cli.place:place", "Move or restart a container.", ""),
    "fail-over": (
        "samza_dagster.cli.own_requests:fail_over",
        "Start an active on the host of its standby.",
        "",
    ),
    "acknowledge": (
        "samza_dagster.cli.acknowledge:acknowledge",
        "Let auto_failover act again on a group that failed over.",
        "",
    ),
    "incidents": (
        "samza_dagster.cli.incidents:incidents",
        "Show what auto_failover told, and what became of it.",
        "",
    ),
    "control-standby": (
        "samza_dagster.cli.own_requests:control_standby",
        "Spin up one more standby, or stop one.",
        "",
    ),
    "commit": (
        "samza_dagster.cli.own_requests:commit",
        "Let a held reservation go on.",
        "",
    ),
    "release": ("samza_dagster.cli.own_requests:release", "Give a held reservation back.", ""),
    "cancel": (
        "samza_dagster.cli.own_requests:cancel",
        "End a request that waits or reserves.",
        "",
    ),
    "status": ("samza_dagster.cli.status:status", "Show a request, a processor or the job.", ""),
    "explain": (
        "samza_dagster.cli.explain:explain",
        "Say which hosts may take a container, and why.",
        "",
    ),
    "locality": ("samza_dagster.cli.locality:locality", "Show where containers and tasks are.", ""),
    "lag": ("samza_dagster.cli.lag:lag", "Show how far each replica is behind its changelog.", ""),
    "verify": ("samza_dagster.cli.verify:verify", "Check the job's audit history.", ""),
    "gc": ("samza_dagster.cli.gc:gc", "Remove finished placement messages.", ""),
    "bounce": ("samza_dagster.cli.bounce:bounce", "Show and steer rolling bounces.", ""),
    "instance": (
        "samza_dagster.cli.instance:instance",
        "Write the dagster.yaml of a Dagster instance.",
        "",
    ),
    "doctor": (
        "samza_dagster.cli.doctor:doctor",
        "Check that the brokers allow what a job's config asks for.",
        "coordinator",
    ),
    "coordinator": (
        "samza_dagster.cli.coordinator:coordinator",
        "Run the job coordinator.",
        "coordinator",
    ),
    "agent": (
        "samza_dagster.cli.agent:agent",
        "Run the agent of a host, or make one file of it.",
        "",
    ),
    "simulate": (
        "samza_dagster.cli.simulate:simulate",
        "Run the placement rules in a virtual world, under faults.",
        "",
    ),
    "sandbox": (
        "samza_dagster.sandbox.commands:sandbox",
        "Run Kafka and a job on this machine.",
        "sandbox",
    ),
    "demo": (
        "samza_dagster.sandbox.demo.command:demo_command",
        "Show moves and a failover on the sandbox.",
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
        raise MissingPrerequisite(
            f"load {module}",
            seen=f"no module {error.name}",
            fix=f"pip install 'samza_dagster[{extra}]'" if extra else "install samza_dagster anew",
        ) from error
    return command


class LazyGroup(Reporting, click.Group):
    """A group whose help names commands that it hasn't imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command."""
        if cmd_name not in _COMMANDS:
            return None
        place, _, extra = _COMMANDS[cmd_name]
        return load(place, extra)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text, _) in _COMMANDS.items()])


@click.group(
    "samza-dagster",
    cls=LazyGroup,
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
