"""Writes to ZooKeeper that count only while the writer's own node exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import Create as Creation
from kazoo.security import OPEN_ACL_UNSAFE

from samza_dagster.errors import Fenced
from samza_dagster.metadata.zookeeper import NodeStat, ZooKeeper


class Create(NamedTuple):
    """Creates a node; None isn't the empty string."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False


class SetData(NamedTuple):
    """Writes a node's data at this version alone; -1: at any."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Deletes a node that has no children."""

    path: str
    version: int = -1


Write = Create | SetData | Delete


class GuardedSession:
    """A session that writes only while `node` exists, its own ephemeral node.

    A writer that was paused beyond its session's time continues as if nothing had happened, in a
    new session of kazoo's. But another may lead meanwhile, and may have its tasks. So each write
    is one transaction with a check of the node, and raises `Fenced` once that is gone. Reads are
    those of the session.
    """

    def __init__(self, zookeeper: ZooKeeper, node: str) -> None:
        self._zookeeper = zookeeper
        self._node = node
        self.get = zookeeper.get
        self.get_async = zookeeper.get_async
        self.get_children = zookeeper.get_children
        self.exists = zookeeper.exists
        self.sync = zookeeper.sync

    @property
    def last_zxid(self) -> int:
        """Return the session's newest transaction."""
        return self._zookeeper.last_zxid

    def create(
        self,
        path: str,
        data: bytes | None,
        *,
        ephemeral: bool = False,
        include_data: bool = False,
    ) -> Any:
        """Create a node; return its path, with `include_data` its stat too."""
        (made,) = self.commit(Create(path, data, ephemeral))
        return (made, self.get(path)[1]) if include_data else made

    def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        """Write a node's data."""
        (stat,) = self.commit(SetData(path, data, version))
        return cast("NodeStat", stat)

    def delete(self, path: str, version: int = -1) -> None:
        """Delete a node that has no children."""
        self.commit(Delete(path, version))

    def commit(self, *writes: Write) -> list[object]:
        """Do all writes or none; return ZooKeeper's answer to each.

        Raises `Fenced`, or kazoo's error of the impossible write.
        """
        transaction = self._zookeeper.transaction()
        transaction.check(self._node, -1)
        for write in writes:
            match write:
                case Create():
                    transaction.operations.append(self._creation(write))
                case SetData():
                    transaction.set_data(*write)
                case Delete():
                    transaction.delete(*write)
        guard, *results = transaction.commit()
        others = (RolledBackError, RuntimeInconsistency)
        if isinstance(guard, Exception) and not isinstance(guard, others):
            raise Fenced(
                "write to the group",
                seen=f"{self._node} is gone: the session that made it is over",
                fix="nothing: the processor registers anew",
            ) from guard
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, others):
                raise result
        return results

    def _creation(self, write: Create) -> object:
        """Return the creation of a node; unlike in kazoo's transactions its data may be null."""
        acl: Sequence[object] = self._zookeeper.default_acl or OPEN_ACL_UNSAFE
        return Creation(self._zookeeper.chroot + write.path, write.data, acl, int(write.ephemeral))
