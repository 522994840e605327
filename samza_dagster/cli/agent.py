"""`samza-dagster agent run …`: becomes the agent, which is the standard library alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

import samza_dagster
from samza_dagster.errors import MissingPrerequisite


@click.group()
def agent() -> None:
    """The agent of a host: starts, watches and stops its containers.

    \b
    Example:
      samza-dagster agent run --help
    """


@agent.command(
    "run",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Runs the agent in place of this process; every flag is the agent's own."""
    program = Path(samza_dagster.__file__).with_name("agent") / "main.py"
    if not program.is_file():
        raise MissingPrerequisite(
            "run the agent", seen=f"no {program}", fix="install samza_dagster anew"
        )
    os.execv(sys.executable, [sys.executable, str(program), *arguments])  # noqa: S606 - no shell
