"""A standalone group as facts, as a coordinator stream tells them of a cluster's job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from samza_dagster.metadata.connection import Connection
from samza_dagster.snapshots import records
from samza_dagster.snapshots.reading import Found
from samza_dagster.snapshots.records import Fact

if TYPE_CHECKING:
    from samza_dagster.client import JobView


def found_in_zookeeper(connection: Connection, at_ms: int) -> Found:
    """Read all that ZooKeeper has of the group now.

    Raises `Unreachable` when ZooKeeper doesn't answer, `InvalidInput` when it has no such group.
    """
    from samza_dagster.client.group import GroupSession  # late: without kazoo no group

    with closing(GroupSession(connection)) as session:
        reader = session.reader()
        view = reader.view(connection.job_name, connection.job_id, 0)
        config = {**reader.config(), "app.run.id": view.deployment_id or ""}
        partitions = reader.changelog_partitions()
    found = Found()
    for fact in facts_of(view, config, partitions):
        found.state(fact, at_ms)
    return found


def facts_of(
    view: JobView, config: Mapping[str, str], partitions: Mapping[str, int]
) -> Iterator[Fact]:
    """Yield a group's settings, the tasks that registered processors have, and where these are."""
    for name, value in config.items():
        if records.is_needed(name):
            yield Fact(records.CONFIG, name, value)
    for processor, member in sorted(view.members.items()):
        if member.host is not None:
            yield Fact(records.HOST, processor, member.host)
        for task in member.tasks:
            yield Fact(records.CONTAINER, task, processor)
            yield Fact(records.MODE, task, view.processors[task].mode.value)
            partition = partitions.get(view.group_of(task))
            if partition is not None:
                yield Fact(records.CHANGELOG, task, str(partition))
