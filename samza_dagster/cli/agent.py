"""`samza-dagster agent run …` becomes the agent; `agent build` makes one file of it for other hosts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

import samza_dagster
from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import print_json
from samza_dagster.cluster import agent_archive
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.version import __version__


@click.group()
def agent() -> None:
    """The agent of a host: starts, watches and stops its containers.

    \b
    Example:
      samza-dagster agent run --help
      samza-dagster agent build --output agent.pyz
    """


@agent.command(
    "run",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Runs the agent in place of this process; every flag is the agent's own.

    \b
    Examples:
      samza-dagster agent run --help
      samza-dagster agent run --directory /var/lib/samza-agent --host host-7 \\
        --memory-mb 8192 --cores 4 --coordinator-url-file coordinator.url --token-file token
    """
    program = Path(samza_dagster.__file__).with_name("agent") / "main.py"
    if not program.is_file():
        raise MissingPrerequisite(
            "run the agent", seen=f"no {program}", fix="install samza_dagster anew"
        )
    os.execv(sys.executable, [sys.executable, "-I", str(program), *arguments])  # noqa: S606 - no shell


@agent.command("build")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("agent.pyz"),
    show_default=True,
    metavar="FILE",
    help="Where to put it; a file that is there is replaced in one step.",
)
@json_option
def build(output: Path, as_json: bool) -> None:
    """Makes one file of the agent, for hosts that have Python 3.8 or later and nothing else.

    The same version gives the same bytes. A running agent and its containers don't
    notice when their file is replaced: the next agent of the directory is the new one.

    \b
    Example:
      samza-dagster agent build --output agent.pyz
      scp agent.pyz host-7:/opt/samza-agent/agent.pyz
      ssh host-7 python3 -I /opt/samza-agent/agent.pyz --version
    """
    built = agent_archive.build()
    built.write(output)
    size = len(built.content)
    if as_json:
        document = {"path": str(output), "sha256": built.sha256, "version": __version__}
        print_json({**document, "size": size})
        return
    click.echo(f"{output}: agent {__version__}, {size:,} bytes, for Python 3.8 or later")
    click.echo(f"sha256 {built.sha256}")
    click.echo(f"On a host: python3 -I {output.name} --help")
