"""A client's session with ZooKeeper, where a standalone group is coordinated."""

from __future__ import annotations

from samza_dagster.client.group_reader import GroupReader
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.standalone.discovery import find_group, known_groups
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store


def known_jobs(zookeeper: ZooKeeperAddress) -> list[str]:
    """The jobs that have a group there, each as `<name>/<id>`. Raises `Unreachable`."""
    session = connect(zookeeper, ANSWER_S)
    try:
        return known_groups(session)
    finally:
        session.stop()
        session.close()


class GroupSession:
    """One job's group, over a session with ZooKeeper that `close` ends. `store` has what was asked of it.

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
