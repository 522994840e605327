"""Options of a process that runs containers of a job: a coordinator, a standalone processor."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from samza_dagster.agent.logs import FORMATS, log_as, process_is
from samza_dagster.configuration import (
    configuration,
    described,
    table_of,
    variable,
)
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.metadata.connection import Connection, read_properties

config_option = click.option(
    "--config",
    envvar=variable("config"),
    type=click.Path(path_type=Path),
    required=True,
    help=described("config"),
)


class JobProcess(click.Command):
    """A command with flags that environment and configuration file may set.

    The file's table is `section`, the variables are `SAMZA_DAGSTER_<SECTION>_<FLAG>`. A setting
    that clients have too has their name, and is before the tables.
    """

    def __init__(self, *args: Any, section: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._section = section
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                parameter.show_envvar = True

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Make the context with the file's values as defaults."""
        return super().make_context(
            info_name,
            args,
            parent,
            auto_envvar_prefix=variable(self._section),
            default_map=table_of(self._section, [p.name for p in self.params]),
            **extra,
        )


class JobFiles(NamedTuple):
    """The job's config, where it leads to, and how its containers are started."""

    connection: Connection
    config: dict[str, str]
    launch: LaunchTemplate

    @classmethod
    def read(cls, config: Path, launch: Path, log_format: str, **ids: str) -> JobFiles:
        """Read the two files and set up the log; raises `InvalidInput` that names the setting.

        `ids` identify this process in each line of JSON, beside the job.
        """
        log_as(log_format, ids)
        connection = configuration({"config": config}).connection()
        process_is(job=connection.own_name)
        return cls(
            connection,
            read_properties(config, "the job's config"),
            LaunchTemplate.read(launch),
        )


log_format_option = click.option(
    "--log-format",
    envvar=variable("log_format"),
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Of the log on stderr; JSON has the ids of job, request, group and container in fields.",
)


def launch_option(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--launch`."""
    return click.option(
        "--launch",
        type=click.Path(path_type=Path),
        required=required,
        help="How a container is started.",
    )


def job_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--config`, `--launch` and `--log-format`."""
    return config_option(launch_option(required=True)(log_format_option(command)))


def stop_at_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at SIGTERM and at SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop())
