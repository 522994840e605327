"""`coordinator run --shadow`: its files and connections."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from samza_dagster.agent.logs import log_as, process_is
from samza_dagster.client.access import JobAccess
from samza_dagster.configuration import configuration
from samza_dagster.coordinator.job_process import stop_at_signals
from samza_dagster.coordinator.limits import limits_of
from samza_dagster.coordinator.shadow.downtime import TopicWork
from samza_dagster.coordinator.shadow.log import ShadowLog
from samza_dagster.coordinator.shadow.picture import PictureReader
from samza_dagster.coordinator.shadow.running import Shadow
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import read_properties
from samza_dagster.metadata.kafka_client import KafkaCluster

LOG_NAME = "shadow.jsonl"
_HEEDED = ("config", "log_format", "yarn_resource_manager", "shadow", "shadow_log")


def run_shadow(
    context: click.Context,
    config: Path,
    log_format: str,
    yarn_resource_manager: str | None,
    shadow_log: Path | None,
) -> None:
    """Run a shadow of the job until SIGTERM or SIGINT. The command's other options are named and ignored."""
    log_as(log_format, {"part": "shadow"})
    for name in unheeded(context):
        click.echo(f"Notice: --shadow has no use for {name}: it starts nothing", err=True)
    connection = configuration({"config": config}).connection()
    if connection.zookeeper:
        raise InvalidInput(
            "coordinator run --shadow",
            seen="a standalone job",
            fix="a job of Samza's Application Master",
        )
    if yarn_resource_manager is not None:
        connection = replace(connection, yarn_resource_manager=yarn_resource_manager)
    process_is(job=connection.own_name)
    limits = limits_of(read_properties(config, "the job's config"))
    path = config.resolve().parent / LOG_NAME if shadow_log is None else shadow_log
    access = JobAccess.of(connection)
    with closing(access):
        shadow = Shadow(
            PictureReader(access),
            TopicWork(KafkaCluster.of(connection)),
            ShadowLog(path, f"{connection.job_name}/{connection.job_id}"),
            limits,
        )
        stop_at_signals(shadow.stop)
        shadow.run()


def unheeded(context: click.Context) -> list[str]:
    """Return the options that were given and that a shadow has no use for."""
    names = {p.name or "": p.opts[0] for p in context.command.params}
    return [
        option
        for name, option in names.items()
        if name not in _HEEDED
        and context.get_parameter_source(name)
        not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)
    ]
