"""A virtual ZooKeeper: nodes, sessions, watches and transactions, as kazoo shows them to its callers.

A session reads from a follower, which may be some transactions behind: it never goes back, and has what the session
has written and what a `sync` was for. `weather` is what befalls a call: it is asked before a call reaches the server and
before its answer comes back, and how far behind the follower is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from zlib import crc32

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
_FURTHEST_BEHIND = 60
"""So many transactions a follower is behind at most."""


class Node(NamedTuple):
    """As it was at some transaction, with its statistics by kazoo's names."""

    data: bytes | None
    ctime: int
    mzxid: int
    mtime: int
    ephemeralOwner: int = 0  # noqa: N815 - ZooKeeper's word
    version: int = 0
    sequence: int = 0
    children: frozenset[str] = frozenset()


class Change(NamedTuple):
    """A node's data were written; None: the node is gone."""

    path: str
    data: bytes | None
    is_gone: bool
    session: int


class Operation(NamedTuple):
    """Of a transaction: `create`, `set`, `delete` or `check`."""

    do: str
    arguments: tuple[Any, ...]


class Weather(Protocol):
    """What befalls the calls of one session; each method may raise what kazoo does, or end the caller."""

    def before(self) -> None:
        """The call hasn't reached the server yet."""
        ...

    def after_write(self) -> None:
        """It was carried out."""
        ...

    def seen(self, seen: int, newest: int) -> int:
        """Up to which transaction its follower has come, which has shown it `seen` before."""
        ...


class Server:
    """One order of all writes; sessions expire by its clock. `changes` are those since somebody took them."""

    def __init__(self, session_ms: int, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.session_ms = session_ms
        self.zxid = 0
        self.nodes: dict[str, Node] = {"": Node(None, 0, 0, 0)}
        self.heard_ms: dict[int, int] = {}
        self.changes: list[Change] = []
        self.fired: list[Watch] = []
        self._past: dict[str, list[tuple[int, Node | None]]] = {}
        self._next_session = 1
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}

    def open(self) -> int:
        """A new session."""
        number, self._next_session = self._next_session, self._next_session + 1
        self.heard_ms[number] = self.now_ms()
        return number

    def over_ms(self, session: int) -> int | None:
        """When a session is over of which nothing more is heard; None: it is."""
        heard_ms = self.heard_ms.get(session)
        return None if heard_ms is None else heard_ms + self.session_ms

    def expire(self) -> None:
        """Ends the sessions of which nothing was heard in time."""
        for session, heard_ms in list(self.heard_ms.items()):
            if self.now_ms() >= heard_ms + self.session_ms:
                self.end(session)

    def end(self, session: int) -> None:
        """Its ephemeral nodes are gone, in one transaction."""
        self.heard_ms.pop(session, None)
        self.zxid += 1
        for path in [p for p, node in self.nodes.items() if node.ephemeralOwner == session]:
            self._delete(path, -1, session)

    def node(self, path: str) -> Node:
        """Raises `NoNodeError`."""
        found = self.nodes.get(path)
        if found is None:
            raise NoNodeError
        return found

    def node_at(self, path: str, zxid: int) -> Node | None:
        """As it was once that transaction was carried out."""
        if zxid < self.zxid:
            for until, node in self._past.get(path, ()):
                if zxid < until:
                    return node
        return self.nodes.get(path)

    def data_since(self, path: str, zxid: int) -> set[bytes | None]:
        """All that it has held since that transaction; None where it wasn't there."""
        past = [node for until, node in self._past.get(path, ()) if zxid < until]
        return {None if node is None else node.data for node in (*past, self.nodes.get(path))}

    def names_since(self, path: str, zxid: int) -> set[str]:
        """All nodes that have been below it since that transaction."""
        past = [node for until, node in self._past.get(path, ()) if zxid < until]
        found = (node.children for node in (*past, self.nodes.get(path)) if node is not None)
        return set[str]().union(*found)

    def create(self, path: str, data: bytes | None, flags: int, session: int) -> str:
        """Flags as ZooKeeper's: 1 is ephemeral, 2 sequential."""
        self.zxid += 1
        return self._create(path, data, flags, session)

    def set(self, path: str, data: bytes | None, version: int, session: int) -> Node:
        """As kazoo's."""
        self.zxid += 1
        return self._set(path, data, version, session)

    def delete(self, path: str, version: int, session: int) -> None:
        """As kazoo's."""
        self.zxid += 1
        self._delete(path, version, session)

    def delete_all(self, path: str) -> None:
        """A node and all below it, as somebody does by hand."""
        for name in sorted(self.node(path).children):
            self.delete_all(f"{path}/{name}")
        self.delete(path, -1, 0)

    def commit(self, operations: list[Operation], session: int) -> list[Any]:
        """All of them or none."""
        self.zxid += 1
        results: list[Any] = []
        nodes, changes, fired = dict(self.nodes), len(self.changes), len(self.fired)
        for each in operations:
            do: Callable[..., Any] = getattr(self, f"_{each.do}")
            try:
                results.append(do(*each.arguments, session))
            except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError) as error:
                self.nodes = nodes
                for past in self._past.values():
                    while past and past[-1][0] == self.zxid:
                        past.pop()
                del self.changes[changes:]
                del self.fired[fired:]
                left = len(operations) - len(results) - 1
                return [
                    *(RolledBackError() for _ in results),
                    error,
                    *[RuntimeInconsistency()] * left,
                ]
        return results

    def watch_data(self, path: str, watch: Watch | None, zxid: int) -> None:
        """Once. What has changed since that transaction is heard of, too."""
        if watch is None:
            return
        self._data_watches.setdefault(path, {})[watch] = None
        then, now = self.node_at(path, zxid), self.nodes.get(path)
        if (then and then.mzxid) != (now and now.mzxid):
            self._fire(self._data_watches.pop(path))

    def watch_children(self, path: str, watch: Watch | None, zxid: int) -> None:
        """Once, as `watch_data`."""
        if watch is None:
            return
        self._child_watches.setdefault(path, {})[watch] = None
        then, now = self.node_at(path, zxid), self.nodes.get(path)
        if (then and then.children) != (now and now.children):
            self._fire(self._child_watches.pop(path))

    def _create(self, path: str, data: bytes | None, flags: int, session: int) -> str:
        parent, _, name = path.rpartition("/")
        above = self.node(parent)
        if flags & 2:
            name = f"{name}{above.sequence:010d}"
            path, above = f"{parent}/{name}", above._replace(sequence=above.sequence + 1)
        if path in self.nodes:
            raise NodeExistsError
        now_ms = self.now_ms()
        made = Node(data, now_ms, self.zxid, now_ms, session if flags & 1 else 0)
        self._put(path, made)
        self._put(parent, above._replace(children=above.children | {name}))
        self._changed(Change(path, data, False, session))
        self._fire(self._child_watches.pop(parent, ()))
        return path

    def _set(self, path: str, data: bytes | None, version: int, session: int) -> Node:
        node = self.node(path)
        if version not in (-1, node.version):
            raise BadVersionError
        node = node._replace(
            data=data, version=node.version + 1, mzxid=self.zxid, mtime=self.now_ms()
        )
        self._put(path, node)
        self._changed(Change(path, data, False, session))
        return node

    def _delete(self, path: str, version: int, session: int) -> None:
        node = self.node(path)
        if version not in (-1, node.version):
            raise BadVersionError
        if node.children:
            raise NotEmptyError
        parent, _, name = path.rpartition("/")
        above = self.nodes[parent]
        self._put(path, None)
        self._put(parent, above._replace(children=above.children - {name}))
        self._changed(Change(path, None, True, session))
        self._fire(self._child_watches.pop(path, ()))
        self._fire(self._child_watches.pop(parent, ()))

    def _check(self, path: str, version: int, session: int) -> None:
        """Raises where the node isn't there, or is of another version."""
        del session
        if version not in (-1, self.node(path).version):
            raise BadVersionError

    def _put(self, path: str, node: Node | None) -> None:
        past = self._past.setdefault(path, [])
        while past and past[0][0] <= self.zxid - _FURTHEST_BEHIND:
            past.pop(0)
        if not past or past[-1][0] < self.zxid:
            past.append((self.zxid, self.nodes.get(path)))
        if node is None:
            self.nodes.pop(path, None)
        else:
            self.nodes[path] = node

    def _changed(self, change: Change) -> None:
        self.changes.append(change)
        self._fire(self._data_watches.pop(change.path, ()))

    def _fire(self, watches: Any) -> None:
        self.fired += watches


class _Transaction:
    """kazoo's, whose `operations` may be appended to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.operations: list[Any] = []

    def check(self, path: str, version: int) -> None:
        self.operations.append(Operation("check", (path, version)))

    def set_data(self, path: str, data: bytes, version: int = -1) -> None:
        self.operations.append(Operation("set", (path, data, version)))

    def delete(self, path: str, version: int = -1) -> None:
        self.operations.append(Operation("delete", (path, version)))

    def commit(self) -> list[Any]:
        written = [
            each
            if isinstance(each, Operation)
            else Operation("create", (each.path, each.data, each.flags))  # `GuardedSession`'s
            for each in self.operations
        ]
        return self._session.write(self._session.server.commit, written)


class Session:
    """What `ZooKeeper` names of kazoo's client. A session that has expired is renewed, and its listeners hear that."""

    chroot = ""
    default_acl = None

    def __init__(self, server: Server, weather: Weather | None = None) -> None:
        self.server = server
        self._weather = weather
        self._listeners: list[Callable[[str], object]] = []
        self.number = server.open()
        self._seen = 0

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Its number, and a password that nobody asks for."""
        return self.number, b""

    @property
    def last_zxid(self) -> int:
        """The newest transaction that it has seen."""
        return self._seen

    @property
    def is_over(self) -> bool:
        """Whether its server has ended it."""
        return self.number not in self.server.heard_ms

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Hears when the session has expired."""
        self._listeners.append(listener)

    def stop(self) -> None:
        """It ends its session."""
        self.server.end(self.number)

    def close(self) -> None:
        """Nothing is held."""

    def renew(self) -> None:
        """Its session is over: listeners hear that, and it has a new one."""
        for listener in self._listeners:
            listener("LOST")
        self.number = self.server.open()

    def sync(self, path: str) -> None:
        """The next reading is of all that was written before."""
        del path
        self._reach()
        self._seen = self.server.zxid

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Any]:
        """As kazoo's."""
        node = self._node(path)
        if node is None:
            raise NoNodeError
        self.server.watch_data(path, watch, self._seen)
        return node.data, node

    def get_async(self, path: str) -> Any:
        """As kazoo's."""
        return _Later(self, path)

    def exists(self, path: str, watch: Watch | None = None) -> Any:
        """As kazoo's."""
        node = self._node(path)
        self.server.watch_data(path, watch, self._seen)
        return node

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        """As kazoo's, in an order that means nothing."""
        path = path.rstrip("/")
        node = self._node(path)
        if node is None:
            raise NoNodeError
        self.server.watch_children(path, watch, self._seen)
        return sorted(node.children, key=lambda name: crc32(name.encode()))

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
        """Carried out once; the answer may be lost. Its follower has carried it out, too, or seen that it can't be."""
        self._reach()
        try:
            answer = do(*arguments, self.number)
        finally:
            self._seen = self.server.zxid
        if self._weather is not None:
            self._weather.after_write()
        return answer

    def _node(self, path: str) -> Node | None:
        self._reach()
        server, newest = self.server, self.server.zxid
        seen = newest if self._weather is None else self._weather.seen(self._seen, newest)
        self._seen = max(self._seen, seen, newest - _FURTHEST_BEHIND + 1)
        return server.node_at(path, self._seen)

    def _reach(self) -> None:
        if self._weather is not None:
            self._weather.before()
        server = self.server
        if self.is_over:
            self.renew()
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
