"""What a process that runs containers of a job is started with: a coordinator, a standalone processor."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.metadata.connection import Connection, read_properties

config_option = click.option(
    "--config", type=click.Path(path_type=Path), required=True, help="The job's config."
)


class JobFiles(NamedTuple):
    """The job's config, where it leads to, and how its containers are started."""

    connection: Connection
    config: dict[str, str]
    launch: LaunchTemplate

    @classmethod
    def read(cls, config: Path, launch: Path) -> JobFiles:
        """Reads the two files, and logs from now on; raises `InvalidInput` that names the setting."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        return cls(
            Connection.from_properties(config, os.environ),
            read_properties(config, "the job's config"),
            LaunchTemplate.read(launch),
        )


def job_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--config` and `--launch`."""
    launch = click.option(
        "--launch",
        type=click.Path(path_type=Path),
        required=True,
        help="How a container is started.",
    )
    return config_option(launch(command))


def stop_at_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` at SIGTERM and at SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop())
