"""A client's session with ZooKeeper, where a standalone group is coordinated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from samza_dagster.client.group_view import changelog_partitions, view_of_group
from samza_dagster.client.views import (
    JobView,
)
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.published_config import published_config
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.model import LocalityModel, ProcessorLocality
from samza_dagster.standalone.discovery import find_group, known_groups
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store


class GroupReader:
    """A reading of a group, made at the first question. `store` has its config and its requests."""

    def __init__(self, read: Callable[[], GroupView], store: MetadataStore) -> None:
        self._read = read
        self._store = store

    @cached_property
    def _group(self) -> GroupView:
        return self._read()

    def config(self) -> Mapping[str, str]:
        """Return the job's config as its processors have published it; empty if none of ours has."""
        return published_config(self._store)

    def changelog_partitions(self) -> Mapping[str, int]:
        """Active task → its changelog partition."""
        return changelog_partitions(self._group)

    def view(self, job_name: str, job_id: str, now_ms: int) -> JobView:
        """The job as its group tells it now."""
        return view_of_group(job_name, job_id, self._group, self.config(), now_ms)

    def locality(self, job_name: str, job_id: str) -> LocalityModel:
        """The location that each task has written last, by the task's name."""
        del job_name, job_id
        return LocalityModel(
            processor_localities={
                task: ProcessorLocality(id=task, host=location)
                for task, location in sorted(self._group.locality.items())
            }
        )


def known_jobs(zookeeper: ZooKeeperAddress) -> list[str]:
    """The jobs that have a group there, each as `<name>/<id>`. Raises `Unreachable`."""
    session = connect(zookeeper, ANSWER_S)
    try:
        return known_groups(session)
    finally:
        session.stop()
        session.close()


class GroupSession:
    """A job's group, over a session with ZooKeeper that `close` ends. `store` has its requests.

    Raises `Unreachable` when ZooKeeper doesn't answer, `InvalidInput` when it has no such group.
    """

    def __init__(self, connection: Connection) -> None:
        address = ZooKeeperAddress(connection.zookeeper, settings=connection.zookeeper_config)
        self._session = connect(address, ANSWER_S)
        try:
            paths = find_group(self._session, connection.job_name, connection.job_id)
        except BaseException:
            self.close()
            raise
        self._group = ZooKeeperGroup(self._session, paths, lambda: None)
        self.store: MetadataStore = placement_store(self._session, paths)

    def reader(self) -> GroupReader:
        """A new reading."""
        return GroupReader(lambda: self._group.view(None), self.store)

    def close(self) -> None:
        """Ends the session."""
        self._session.stop()
        self._session.close()
