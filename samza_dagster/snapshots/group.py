"""A standalone group, found as a coordinator stream tells of a cluster's job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from samza_dagster.metadata.connection import Connection
from samza_dagster.snapshots.found import Found, is_needed

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
        return found_of(view, config, reader.changelog_partitions(), at_ms)


def found_of(
    view: JobView, config: Mapping[str, str], partitions: Mapping[str, int], at_ms: int
) -> Found:
    """Return a group's settings, the tasks that registered processors have, and where these are."""
    found = Found({name: value for name, value in config.items() if is_needed(name)})
    for processor, member in sorted(view.members.items()):
        if member.host is not None:
            found.hosts[processor] = member.host, at_ms
        for task in member.tasks:
            found.containers[task] = processor
            found.modes[task] = view.processors[task].mode.value
            partition = partitions.get(view.group_of(task))
            if partition is not None:
                found.partitions[task] = partition
    return found
