"""Options that the commands share: which job, on which cluster, and the form of the output."""

from __future__ import annotations

import functools
import getpass
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samza_dagster.errors import InvalidInput

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.metadata.connection import Connection
    from samza_dagster.orchestration.operations.steered import By


@dataclass(frozen=True)
class Target:
    """What the command line says about the job; the environment fills what it leaves out."""

    bootstrap_servers: str | None = None
    config: Path | None = None
    job_name: str | None = None
    job_id: str | None = None
    yarn_resource_manager: str | None = None
    zookeeper: str | None = None

    def connection(self) -> Connection:
        """The connection: options first, then `--config`, then the environment.

        Raises `InvalidInput` that names what is missing.
        """
        from samza_dagster.metadata import connection as known

        if self.config is not None:
            base = known.Connection.from_properties(self.config, os.environ)
            return replace(
                base,
                bootstrap_servers=self.bootstrap_servers or base.bootstrap_servers,
                job_name=self.job_name or base.job_name,
                job_id=self.job_id or base.job_id,
                yarn_resource_manager=self.yarn_resource_manager or base.yarn_resource_manager,
                zookeeper=self.zookeeper or base.zookeeper,
            )
        given = {
            known.BOOTSTRAP_SERVERS: self.bootstrap_servers,
            known.JOB_NAME: self.job_name,
            known.JOB_ID: self.job_id,
            known.RESOURCE_MANAGER: self.yarn_resource_manager,
            known.ZOOKEEPER: self.zookeeper,
        }
        environment = {**os.environ, **{name: text for name, text in given.items() if text}}
        options = {known.BOOTSTRAP_SERVERS: "--bootstrap-servers", known.JOB_NAME: "--job-name"}
        for name, option in options.items():
            if not environment.get(name):
                raise InvalidInput(
                    "which job on which cluster",
                    seen=f"neither {option} nor --config nor {name}",
                    fix=f"give {option}, or --config job.properties, or set {name}",
                )
        return known.Connection.from_environment(environment)

    def client(self) -> PlacementClient:
        """A client of this job; the caller closes it."""
        from samza_dagster.client import PlacementClient

        return PlacementClient(self.connection())


def gathered(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds options to a command, which gets what `make` makes of their values as `name`."""
    taken = tuple(inspect.signature(make).parameters)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_made(*args: Any, **given: Any) -> Any:
            made = make(**{each: given.pop(each) for each in taken})
            return command(*args, **{name: made}, **given)

        for option in reversed(options):
            with_made = option(with_made)
        return with_made

    return decorate


BOOTSTRAP_OPTIONS = (
    click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help="Kafka brokers [env: SAMZA_DAGSTER_BOOTSTRAP_SERVERS].",
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="job.properties",
        help="A Samza job's properties: name, id, brokers and security.",
    ),
)
TARGET_OPTIONS = (
    *BOOTSTRAP_OPTIONS,
    click.option("--job-name", metavar="NAME", help="job.name [env: SAMZA_DAGSTER_JOB_NAME]."),
    click.option("--job-id", metavar="ID", help="job.id [env: SAMZA_DAGSTER_JOB_ID; default 1]."),
    click.option(
        "--yarn-resource-manager",
        metavar="URL,…",
        help="YARN's web address, where Samza's own AM runs the job: nodes and application are "
        "asked of it [env: SAMZA_DAGSTER_YARN_RESOURCE_MANAGER].",
    ),
    click.option(
        "--zookeeper",
        metavar="HOST:PORT,…",
        help="Where ZooKeeper is, of a standalone job; in a config job.coordinator.zk.connect says so "
        "[env: SAMZA_DAGSTER_ZOOKEEPER; a login is in the file named by SAMZA_DAGSTER_ZOOKEEPER_CONFIG].",
    ),
)
target_options = gathered("target", Target, *TARGET_OPTIONS)
"""Adds the options of the job; the command gets them as `target`."""
prefix_option = click.option(
    "--prefix",
    default="",
    metavar="PREFIX",
    help="The job's `prefix` in its YAML, where a code location has several jobs.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included."
)


def _by(reason: str, ticket: str, who: str) -> By:
    from samza_dagster.orchestration.operations.steered import By

    return By(who or getpass.getuser(), reason, ticket)


said_options = gathered(
    "by",
    _by,
    click.option("--reason", default="", metavar="TEXT", help="Why, in a few words."),
    click.option("--ticket", default="", metavar="TEXT", help="Ticket or change number."),
    click.option(
        "--requested-by",
        "who",
        default="",
        metavar="NAME",
        help="Who asks; by default the user that runs this.",
    ),
)
"""Adds who asks, why and under which ticket; the command gets them as `by`."""
