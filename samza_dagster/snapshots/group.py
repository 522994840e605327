"""A standalone group as tables: its config, and where processors and tasks are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from samza_dagster.metadata.connection import Connection
from samza_dagster.snapshots.coordinator_stream import JobConfig
from samza_dagster.snapshots.kafka_source import local_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from samza_dagster.client import JobView

_TASKS = "task_name: string, processor_id: string, mode: string, changelog_partition: int"
_HOSTS = "processor_id: string, host: string, reported_at_ms: bigint"
Row = Mapping[str, str | int | None]


def group_tables(
    spark: SparkSession, connection: Connection
) -> tuple[JobConfig, DataFrame, DataFrame]:
    """Config, tasks and hosts, as `coordinator_stream` has them of a cluster's job.

    Raises `Unreachable` when ZooKeeper doesn't answer, `InvalidInput` when it has no such group.
    """
    from samza_dagster.client.group_session import GroupSession  # late: without kazoo no group

    with closing(GroupSession(connection)) as session:
        reader = session.reader()
        view = reader.view(connection.job_name, connection.job_id, 0)
        config, partitions = reader.config(), reader.changelog_partitions()
    tasks, hosts = rows_of(view, partitions)
    values = {**config, "app.run.id": view.deployment_id or ""}
    return JobConfig(values), local_rows(spark, tasks, _TASKS), local_rows(spark, hosts, _HOSTS)


def rows_of(view: JobView, partitions: Mapping[str, int]) -> tuple[list[Row], list[Row]]:
    """The tasks that registered processors have, and where these are."""
    tasks: list[Row] = [
        {
            "task_name": task,
            "processor_id": pid,
            "mode": view.processors[task].mode.value,
            "changelog_partition": partitions.get(view.group_of(task)),
        }
        for pid, member in sorted(view.members.items())
        for task in member.tasks
    ]
    hosts: list[Row] = [
        {"processor_id": pid, "host": member.host, "reported_at_ms": None}
        for pid, member in sorted(view.members.items())
    ]
    return tasks, hosts
