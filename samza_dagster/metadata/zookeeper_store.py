"""`MetadataStore` in ZooKeeper, with Samza's layout: `<root>/<namespace>/<key>/<segment>`.

An 8-byte big-endian CRC-32 follows each value. Both are cut in segments below ZooKeeper's limit
of 1 MB for a node (`ZkMetadataStore` of Samza 1.8). A change's position is its transaction's
number (zxid), which grows over the whole ensemble. ZooKeeper keeps no overwritten or deleted
values: a watch reports the deletions that it sees.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.recipe.cache import TreeEvent

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata.interface import Change, KeptValue
from samza_dagster.metadata.zookeeper import Nodes, NodeStat, Tree, make_path, reached, tree_of

SEGMENT_BYTES = 1020 * 1020
_CHECKSUM_BYTES = 8
_WHOLE_WITHIN_S = 2.0
"""A value that is incomplete for longer has a dead writer, or one that isn't ours."""
_FORBIDDEN = "%/" + "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
_ESCAPED = str.maketrans({c: "".join(f"%{b:02X}" for b in c.encode()) for c in _FORBIDDEN})
_log = logging.getLogger(__name__)


class _Stored(NamedTuple):
    """A key's joined segments, checksum included."""

    data: bytes
    position: int  # the newest change of a segment
    written_ms: int  # the time of that change

    @classmethod
    def of(cls, segments: Iterable[tuple[bytes | None, NodeStat]]) -> _Stored:
        data, stats = zip(*segments, strict=True)
        joined = b"".join(part or b"" for part in data)
        return cls(joined, max(s.mzxid for s in stats), max(s.mtime for s in stats))


def segments_of(value: bytes) -> tuple[bytes, ...]:
    """Return the value with its checksum, in segments for ZooKeeper: `/0`, `/1`, …."""
    whole = value + zlib.crc32(value).to_bytes(_CHECKSUM_BYTES, "big")
    return tuple(whole[at : at + SEGMENT_BYTES] for at in range(0, len(whole), SEGMENT_BYTES))


def _value_of(stored: bytes) -> bytes | None:
    """Return the value of joined segments; None when it isn't whole."""
    value, checksum = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:]
    return value if zlib.crc32(value).to_bytes(_CHECKSUM_BYTES, "big") == checksum else None


def node_name(key: str) -> str:
    """Return the key as the name of a node, with escapes where ZooKeeper needs them.

    Raises `InvalidInput` for the empty key.
    """
    if not key:
        raise InvalidInput("a key in ZooKeeper", seen="an empty one", fix="a name")
    return key.replace(".", "%2E") if key in (".", "..") else key.translate(_ESCAPED)


def key_of(name: str) -> str:
    """Return the key of a name that `node_name` made."""
    return unquote(name)


class ZooKeeperMetadataStore:
    """The store below `root`. Thread-safe. The session's owner stops the session.

    Every method raises `Unreachable` when ZooKeeper doesn't answer.
    """

    def __init__(self, zookeeper: Nodes, root: str) -> None:
        self._zookeeper = zookeeper
        self._root = root.rstrip("/")
        self._written_ms: dict[tuple[str, str], int] = {}
        self._watches: list[_Watch] = []

    def get(self, namespace: str, key: str) -> bytes | None:
        """Return the newest value written before the call; None when absent.

        Raises `MalformedRecord` where its checksum is wrong.
        """
        with reached(f"read {key} of {namespace}"):
            self._zookeeper.sync(self._root or "/")
            kept = self._kept(namespace, key)
        return None if kept is None else kept.value

    def all(self, namespace: str) -> dict[str, bytes]:
        """Return every key of a namespace with its newest value, without incomplete ones."""
        # Incomplete values are logged.
        return {key: kept.value for key, kept in self._read(namespace).items()}

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        """Return every namespace right below the root with its keys and their newest values."""
        # ZooKeeper can't read many nodes as of one time: each value is whole by itself.
        with reached(f"read {self._root}"):
            namespaces = self._children(self._root or "/")
        found = {namespace: self._read(namespace) for namespace in sorted(namespaces)}
        return {namespace: kept for namespace, kept in found.items() if kept}

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """Return when each of these keys got its newest value, by the readings so far."""
        known = ((key, self._written_ms.get((namespace, key))) for key in keys)
        return {key: written for key, written in known if written is not None}

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """Write and wait for the acknowledgement; return the position written."""
        # The first segment is written last, so that its watchers find the whole value.
        path = self._path(namespace, key)
        segments = segments_of(value)
        position = 0
        with reached(f"write {key} of {namespace}"):
            for name in self._children(path):
                if not name.isdigit() or int(name) >= len(segments):
                    self._delete(f"{path}/{name}")
            for number in reversed(range(len(segments))):
                position = self._set(f"{path}/{number}", segments[number])
        return position

    def remove(self, namespace: str, key: str) -> int:
        """Delete the key (if it exists); return the position written."""
        path = self._path(namespace, key)
        with reached(f"delete {key} of {namespace}"):
            while self._zookeeper.exists(path) is not None:
                for name in self._children(path):
                    self._delete(f"{path}/{name}")
                self._delete(path)
            return self._zookeeper.last_zxid

    def prepare_writes(self) -> None:
        """Do nothing, because the session is there."""

    def end_position(self) -> int:
        """Return a position that no later write is below."""
        with reached("ask for ZooKeeper's newest transaction"):
            self._zookeeper.sync(self._root or "/")
            self._zookeeper.exists(self._root or "/")
            return self._zookeeper.last_zxid + 1

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        """Return the newest values written from `since` on, in order, and where to go on."""
        end = self.end_position()
        found = [
            Change(namespace, key, kept.value, kept.position, self._written_ms[namespace, key])
            for key, kept in self._read(namespace).items()
            if since <= kept.position < end
        ]
        return tuple(sorted(found, key=_by_position)), end

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> _Watch:
        """Call `on_change` for `changes` of these namespaces, then for each new one.

        `since` None skips earlier changes. The calls are in order of position, in a thread of its
        own. An exception of the callback is logged and the watch continues. Of quick successive
        writes of a key it may see the last alone.
        """
        start = self.end_position() if since is None else since
        trees = {name: tree_of(self._zookeeper, f"{self._root}/{name}") for name in namespaces}
        watch = _Watch(self._zookeeper, self._root, trees, on_change, start)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        """End all watches. Written values stay readable."""
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.close()

    def _path(self, namespace: str, key: str) -> str:
        return f"{self._root}/{namespace}/{node_name(key)}"

    def _read(self, namespace: str) -> dict[str, KeptValue]:
        kept: dict[str, KeptValue] = {}
        with reached(f"read {namespace}"):
            self._zookeeper.sync(self._root or "/")
            keys = [key_of(name) for name in self._children(f"{self._root}/{namespace}")]
            asked = {k: self._zookeeper.get_async(f"{self._path(namespace, k)}/0") for k in keys}
            for key, reading in asked.items():
                try:
                    first = _Stored.of([reading.get()])
                    found = self._note_value(namespace, key, first) or self._kept(namespace, key)
                except NoNodeError:
                    continue
                except MalformedRecord as error:
                    _log.warning("left out: %s", error)
                    continue
                if found is not None:
                    kept[key] = found
        return kept

    def _kept(self, namespace: str, key: str) -> KeptValue | None:
        path = self._path(namespace, key)
        deadline = time.monotonic() + _WHOLE_WITHIN_S
        while (stored := self._stored(path)) is not None:
            kept = self._note_value(namespace, key, stored)
            if kept is not None:
                return kept
            if time.monotonic() > deadline:
                raise MalformedRecord(
                    f"read {path}",
                    seen=f"{len(stored.data)} bytes, the last eight not the CRC-32 of the others",
                    fix="delete it, or have its writer write it anew",
                )
        return None

    def _note_value(self, namespace: str, key: str, stored: _Stored) -> KeptValue | None:
        """Return the value when it is whole, and note its time for `written_ms`."""
        value = _value_of(stored.data)
        if value is None:
            return None
        self._written_ms[namespace, key] = stored.written_ms
        return KeptValue(value, stored.position)

    def _stored(self, path: str) -> _Stored | None:
        segments: list[tuple[bytes | None, NodeStat]] = []
        with suppress(NoNodeError):
            for number in range(len(self._children(path))):
                segments.append(self._zookeeper.get(f"{path}/{number}"))
        return _Stored.of(segments) if segments else None

    def _children(self, path: str) -> list[str]:
        try:
            return self._zookeeper.get_children(path)
        except NoNodeError:
            return []

    def _set(self, path: str, data: bytes) -> int:
        while True:
            with suppress(NoNodeError):
                return self._zookeeper.set(path, data).mzxid
            make_path(self._zookeeper, path.rpartition("/")[0])
            with suppress(NodeExistsError, NoNodeError):
                made: tuple[str, NodeStat] = self._zookeeper.create(path, data, include_data=True)
                return made[1].mzxid

    def _delete(self, path: str) -> None:
        with suppress(NoNodeError, NotEmptyError):
            self._zookeeper.delete(path)


class _Watch:
    """Reports changes in copies of some namespaces, which follow ZooKeeper by themselves."""

    def __init__(
        self,
        zookeeper: Nodes,
        root: str,
        trees: dict[str, Tree],
        on_change: Callable[[Change], None],
        start: int,
    ) -> None:
        self._zookeeper = zookeeper
        self._root = root
        self._trees = trees
        self._on_change = on_change
        self._start = start
        self._reported: dict[tuple[str, str], int] = {}
        self._events = threading.Condition()
        self._count = 0
        self._unread = len(trees)
        self._is_closed = False
        for tree in trees.values():
            tree.listen(self._note)
            tree.start()
        self._thread = threading.Thread(target=self._run, name="zookeeper-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it and wait for its thread, unless that is the caller."""
        with self._events:
            self._is_closed = True
            self._events.notify_all()
        for tree in self._trees.values():
            tree.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _note(self, event: Any) -> None:
        with self._events:
            if event.event_type == TreeEvent.INITIALIZED:
                self._unread -= 1
            self._count += 1
            self._events.notify_all()

    def _run(self) -> None:
        count = -1
        while True:
            with self._events:
                while not self._is_closed and (self._unread > 0 or self._count == count):
                    self._events.wait()
                count = self._count
            for change in self._news():
                if self._is_closed:
                    return
                try:
                    self._on_change(change)
                except Exception:
                    _log.exception("the callback of a watch failed at %s", change.key)
            if self._is_closed:
                return

    def _news(self) -> list[Change]:
        """Return the unreported changes of the copies; incomplete values follow later."""
        news: list[Change] = []
        positions: dict[tuple[str, str], int] = {}
        for namespace, tree in self._trees.items():
            for name in tree.get_children(f"{self._root}/{namespace}", ()):
                stored = self._stored(tree, f"{self._root}/{namespace}/{name}")
                if stored is None:
                    continue
                key = key_of(name)
                value = _value_of(stored.data)
                positions[namespace, key] = before = self._reported.get(
                    (namespace, key), self._start - 1
                )
                if value is not None and stored.position > before:
                    positions[namespace, key] = stored.position
                    news.append(Change(namespace, key, value, stored.position, stored.written_ms))
        newest = max((self._zookeeper.last_zxid, *positions.values()))
        now_ms = time.time_ns() // 1_000_000
        gone = sorted(self._reported.keys() - positions.keys())
        news += [Change(namespace, key, None, newest, now_ms) for namespace, key in gone]
        self._reported = positions
        return sorted(news, key=_by_position)

    @staticmethod
    def _stored(tree: Tree, path: str) -> _Stored | None:
        nodes = [tree.get_data(f"{path}/{n}") for n, _ in enumerate(tree.get_children(path, ()))]
        segments = [(node.data, node.stat) for node in nodes if node is not None]
        return _Stored.of(segments) if segments else None


def _by_position(change: Change) -> int:
    return change.position
