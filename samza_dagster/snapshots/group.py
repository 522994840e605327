"""A standalone group as facts, as a coordinator stream tells them of a cluster's job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from samza_dagster.metadata.connection import Connection
from samza_dagster.snapshots import facts

if TYPE_CHECKING:
    from samza_dagster.client import JobView

Row = dict[str, Any]


def topic_id(connection: Connection) -> str:
    """What stands for a topic's id in its facts."""
    return f"zookeeper/{connection.own_name}"


def group_facts(connection: Connection, at_ms: int) -> list[Row]:
    """All that is known of the group now: rows of table `facts`, which aren't kept in it.

    Raises `Unreachable` when ZooKeeper doesn't answer, `InvalidInput` when it has no such group.
    """
    from samza_dagster.client.group import GroupSession  # late: without kazoo no group

    with closing(GroupSession(connection)) as session:
        reader = session.reader()
        view = reader.view(connection.job_name, connection.job_id, 0)
        config = {**reader.config(), "app.run.id": view.deployment_id or ""}
        partitions = reader.changelog_partitions()
    about = {
        "topic": "",
        "topic_id": topic_id(connection),
        "partition": 0,
        "offset": 0,
        "came_ms": at_ms,
        "job_name": connection.job_name,
        "job_id": connection.job_id,
        "source": "",
        "at_ms": None,
    }
    found = facts_of(view, config, partitions)
    return [{**about, "kind": kind, "name": name, "text": text} for kind, name, text in found]


def facts_of(
    view: JobView, config: Mapping[str, str], partitions: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text: its settings, the tasks that registered processors have, and where these are."""
    for name, value in config.items():
        if facts.is_needed(name):
            yield facts.CONFIG, name, value
    for processor, member in sorted(view.members.items()):
        if member.host is not None:
            yield facts.HOST, processor, member.host
        for task in member.tasks:
            yield facts.CONTAINER, task, processor
            yield facts.MODE, task, view.processors[task].mode.value
            partition = partitions.get(view.group_of(task))
            if partition is not None:
                yield facts.CHANGELOG, task, str(partition)
