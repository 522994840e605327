"""`samza-dagster config`: what counts, and where it was said."""

from __future__ import annotations

from typing import Any

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import print_json, print_table
from samza_dagster.configuration import JobSettings, described, flag, variable
from samza_dagster.directories import artifacts_directory, config_file, data_directory
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import redacted


@click.group()
def config() -> None:
    """Show which job on which cluster the commands, the component and the coordinator use.

    A value may stand in the configuration file (config.toml), in the environment, and in a flag,
    each over the one before.

    \b
    Examples:
      samza-dagster config show
      samza-dagster config show --config job.properties --json
    """


@config.command("show", short_help="Show each setting, its value and where that was said.")
@json_option
@target_options
def show(target: Target, as_json: bool) -> None:
    """Show each setting, its value and source, and the configuration of Kafka's clients.

    Secrets are masked. Exits 2 when the settings don't name a job, and says what is missing.

    \b
    Examples:
      samza-dagster config show
      samza-dagster config show --config job.properties --json | jq .settings.job_name
    """
    found = target.configuration()
    settings = {
        name: {
            "value": found.value(name) or None,
            "said_by": found.said[name].where if name in found.said else None,
            "flag": flag(name),
            "variable": variable(name),
            "description": described(name),
        }
        for name in JobSettings.model_fields
    }
    lacks: InvalidInput | None = None
    client: dict[str, str] = {}
    zookeeper: dict[str, str] = {}
    try:
        connection = found.connection()
        client = redacted(connection.client_config)
        zookeeper = redacted(connection.zookeeper_config)
    except InvalidInput as error:
        lacks = error
    if as_json:
        clients = {"client": client, "zookeeper": zookeeper}
        missing = None if lacks is None else lacks.to_json()
        print_json({"settings": settings, **clients, **_places(), "lacks": missing})
        raise click.exceptions.Exit(0 if lacks is None else lacks.exit_code)
    print_table(
        "Settings",
        ("setting", "value", "said by", "what it is"),
        [(n, one["value"], one["said_by"], one["description"]) for n, one in settings.items()],
        spare=("what it is",),
    )
    for title, of in (("Kafka's clients", client), ("ZooKeeper's", zookeeper)):
        if of:
            print_table(f"Settings of {title}", ("setting", "value"), sorted(of.items()))
    print_table("Places", ("what", "where"), list(_places().items()))
    if lacks is not None:
        raise lacks


def _places() -> dict[str, Any]:
    return {
        "config_file": str(config_file()),
        "data": str(data_directory()),
        "artifacts": str(artifacts_directory()),
    }
