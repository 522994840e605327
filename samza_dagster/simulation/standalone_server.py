"""A virtual ZooKeeper: nodes, sessions, watches and transactions, as kazoo shows them to its callers.

`weather` is what befalls a call: it is asked before a call reaches the server and before its answer comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)

Watch = Callable[[Any], None]


@dataclass(slots=True)
class Node:
    """With its statistics, by kazoo's names."""

    data: bytes | None
    ctime: int
    mzxid: int
    mtime: int
    ephemeralOwner: int = 0  # noqa: N815 - ZooKeeper's word
    version: int = 0
    sequence: int = 0
    children: set[str] = field(default_factory=set[str])


class Change(NamedTuple):
    """A node's data were written; None: the node is gone."""

    path: str
    data: bytes | None
    is_gone: bool
    session: int


class Weather(Protocol):
    """What befalls the calls of one session; each method may raise what kazoo does, or end the caller."""

    def before(self) -> None:
        """The call hasn't reached the server yet."""
        ...

    def after_write(self) -> None:
        """It was carried out."""
        ...


class Server:
    """One order of all writes; sessions expire by its clock. `changes` are those since somebody took them."""

    def __init__(self, session_ms: int, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.session_ms = session_ms
        self.checks = True
        self.zxid = 0
        self.nodes: dict[str, Node] = {"": Node(None, 0, 0, 0)}
        self.heard_ms: dict[int, int] = {}
        self.changes: list[Change] = []
        self.fired: list[Watch] = []
        self._next_session = 1
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}

    def open(self) -> int:
        """A new session."""
        number, self._next_session = self._next_session, self._next_session + 1
        self.heard_ms[number] = self.now_ms()
        return number

    def expire(self) -> None:
        """Ends the sessions of which nothing was heard in time."""
        for session, heard_ms in list(self.heard_ms.items()):
            if self.now_ms() >= heard_ms + self.session_ms:
                self.end(session)

    def end(self, session: int) -> None:
        """Its ephemeral nodes are gone."""
        self.heard_ms.pop(session, None)
        for path in [p for p, node in self.nodes.items() if node.ephemeralOwner == session]:
            self.delete(path, -1, session)

    def node(self, path: str) -> Node:
        """Raises `NoNodeError`."""
        found = self.nodes.get(path.rstrip("/"))
        if found is None:
            raise NoNodeError
        return found

    def create(self, path: str, data: bytes | None, flags: int, session: int) -> str:
        """Flags as ZooKeeper's: 1 is ephemeral, 2 sequential."""
        parent, _, name = path.rpartition("/")
        above = self.node(parent)
        if flags & 2:
            name, above.sequence = f"{name}{above.sequence:010d}", above.sequence + 1
            path = f"{parent}/{name}"
        if path in self.nodes:
            raise NodeExistsError
        self.zxid += 1
        now_ms = self.now_ms()
        self.nodes[path] = Node(data, now_ms, self.zxid, now_ms, session if flags & 1 else 0)
        above.children.add(name)
        self._changed(Change(path, data, False, session), self._data_watches.pop(path, ()))
        self._fire(self._child_watches.pop(parent, ()))
        return path

    def set(self, path: str, data: bytes | None, version: int, session: int) -> Node:
        """As kazoo's."""
        node = self.node(path)
        if version not in (-1, node.version):
            raise BadVersionError
        self.zxid += 1
        node.data, node.version = data, node.version + 1
        node.mzxid, node.mtime = self.zxid, self.now_ms()
        self._changed(Change(path, data, False, session), self._data_watches.pop(path, ()))
        return node

    def delete(self, path: str, version: int, session: int) -> None:
        """As kazoo's."""
        node = self.node(path)
        if version not in (-1, node.version):
            raise BadVersionError
        if node.children:
            raise NotEmptyError
        parent, _, name = path.rpartition("/")
        self.zxid += 1
        del self.nodes[path]
        self.nodes[parent].children.discard(name)
        self._changed(Change(path, None, True, session), self._data_watches.pop(path, ()))
        self._fire(self._child_watches.pop(path, ()))
        self._fire(self._child_watches.pop(parent, ()))

    def delete_all(self, path: str) -> None:
        """A node and all below it, as somebody does by hand."""
        for name in sorted(self.node(path).children):
            self.delete_all(f"{path}/{name}")
        self.delete(path, -1, 0)

    def check(self, path: str, version: int, session: int) -> None:
        """Raises where the node isn't there, or is of another version."""
        del session
        if self.checks and version not in (-1, self.node(path).version):
            raise BadVersionError

    def commit(self, operations: list[tuple[Any, ...]], session: int) -> list[Any]:
        """All of them or none. What is undone is nothing that another could have seen."""
        results: list[Any] = []
        undo: list[tuple[str, Node | None, bytes | None, int]] = []
        changes, fired = len(self.changes), len(self.fired)
        for do, path, *arguments in operations:
            node = self.nodes.get(path)
            undo.append((path, node, node and node.data, node.version if node else 0))
            try:
                results.append(do(path, *arguments, session))
            except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError) as error:
                self._undo(undo[:-1])
                del self.changes[changes:]
                del self.fired[fired:]
                left = len(operations) - len(results) - 1
                return [
                    *(RolledBackError() for _ in results),
                    error,
                    *[RuntimeInconsistency()] * left,
                ]
        return results

    def _undo(self, done: list[tuple[str, Node | None, bytes | None, int]]) -> None:
        for path, node, data, version in reversed(done):
            parent, _, name = path.rpartition("/")
            if node is None:
                self.nodes.pop(path, None)
                self.nodes[parent].children.discard(name)
            else:
                node.data, node.version, self.nodes[path] = data, version, node
                self.nodes[parent].children.add(name)

    def watch_data(self, path: str, watch: Watch | None) -> None:
        """Once."""
        if watch is not None:
            self._data_watches.setdefault(path, {})[watch] = None

    def watch_children(self, path: str, watch: Watch | None) -> None:
        """Once."""
        if watch is not None:
            self._child_watches.setdefault(path, {})[watch] = None

    def _changed(self, change: Change, watches: Any) -> None:
        self.changes.append(change)
        self._fire(watches)

    def _fire(self, watches: Any) -> None:
        self.fired += watches


class _Transaction:
    """kazoo's, whose `operations` may be appended to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.operations: list[Any] = []

    def check(self, path: str, version: int) -> None:
        self.operations.append((self._session.server.check, path, version))

    def set_data(self, path: str, data: bytes, version: int = -1) -> None:
        self.operations.append((self._session.server.set, path, data, version))

    def delete(self, path: str, version: int = -1) -> None:
        self.operations.append((self._session.server.delete, path, version))

    def commit(self) -> list[Any]:
        server = self._session.server
        written = [
            each
            if callable(each[0])
            else (server.create, each.path, each.data, each.flags)  # as `GuardedSession` makes one
            for each in self.operations
        ]
        return self._session.write(server.commit, written)


class Session:
    """What `ZooKeeper` names of kazoo's client. A session that has expired is renewed, and its listeners hear that."""

    chroot = ""
    default_acl = None

    def __init__(self, server: Server, weather: Weather | None = None) -> None:
        self.server = server
        self._weather = weather
        self._listeners: list[Callable[[str], object]] = []
        self.number = server.open()
        self.asked_ms = 0

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Its number, and a password that nobody asks for."""
        return self.number, b""

    @property
    def last_zxid(self) -> int:
        """The newest transaction."""
        return self.server.zxid

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Hears when the session has expired."""
        self._listeners.append(listener)

    def stop(self) -> None:
        """It ends its session."""
        self.server.end(self.number)

    def close(self) -> None:
        """Nothing is held."""

    def sync(self, path: str) -> None:
        """The next reading is of all that was written before."""
        del path
        self.asked_ms = self.server.now_ms()
        self._reach()

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Any]:
        """As kazoo's."""
        self._reach()
        node = self.server.node(path)
        self.server.watch_data(path, watch)
        return node.data, node

    def get_async(self, path: str) -> Any:
        """As kazoo's."""
        return _Later(self, path)

    def exists(self, path: str, watch: Watch | None = None) -> Any:
        """As kazoo's."""
        self._reach()
        self.server.watch_data(path, watch)
        return self.server.nodes.get(path.rstrip("/"))

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        """As kazoo's."""
        self._reach()
        node = self.server.node(path)
        self.server.watch_children(path, watch)
        return sorted(node.children)

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        include_data: bool = False,
    ) -> Any:
        """As kazoo's."""
        made = self.write(self.server.create, path, data, ephemeral + 2 * sequence)
        return (made, self.server.nodes[made]) if include_data else made

    def set(self, path: str, data: bytes | None, version: int = -1) -> Any:
        """As kazoo's."""
        return self.write(self.server.set, path, data, version)

    def delete(self, path: str, version: int = -1) -> None:
        """As kazoo's."""
        self.write(self.server.delete, path, version)

    def transaction(self) -> Any:
        """As kazoo's."""
        return _Transaction(self)

    def write(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Carried out once; the answer may be lost."""
        self._reach()
        answer = do(*arguments, self.number)
        if self._weather is not None:
            self._weather.after_write()
        return answer

    def _reach(self) -> None:
        if self._weather is not None:
            self._weather.before()
        server = self.server
        if self.number not in server.heard_ms:
            for listener in self._listeners:
                listener("LOST")
            self.number = server.open()
            raise SessionExpiredError
        server.heard_ms[self.number] = max(server.heard_ms[self.number], server.now_ms())


class _Later:
    """A reading that is under way."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = path

    def get(self) -> tuple[bytes | None, Any]:
        """As kazoo's."""
        return self._session.get(self._path)
