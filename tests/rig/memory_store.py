"""`MetadataStore` in memory: for tests, simulations and dry runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from samza_dagster.metadata.interface import Change, KeptValue, wall_clock_ms

_log = logging.getLogger(__name__)


class MemoryMetadataStore:
    """Keeps every record that was ever written, like a stream without compaction.

    They are all in `written`, in order. Thread-safe. Each watch has a thread of its own, so a callback may write.
    """

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self.written: list[Change] = []
        self._newest: dict[str, dict[str, KeptValue]] = {}
        self._grown = threading.Condition()
        self._watches: list[_MemoryWatch] = []

    def get(self, namespace: str, key: str) -> bytes | None:
        """The newest value; None when absent."""
        with self._grown:
            found = self._newest.get(namespace, {}).get(key)
            return None if found is None else found.value

    def all(self, namespace: str) -> dict[str, bytes]:
        """Every key of a namespace with its newest value."""
        with self._grown:
            return {key: kept.value for key, kept in self._newest.get(namespace, {}).items()}

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        """Every namespace with its keys and their newest values."""
        with self._grown:
            return {namespace: dict(keys) for namespace, keys in self._newest.items()}

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """When each of these keys got its newest value, also where that was deleted since."""
        wanted = set(keys)
        with self._grown:
            return {
                change.key: change.timestamp_ms
                for change in self.written
                if change.namespace == namespace
                and change.key in wanted
                and change.value is not None
            }

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """Writes; returns the position written."""
        return self._append(namespace, key, value)

    def remove(self, namespace: str, key: str) -> int:
        """Deletes the key (if such a key exists); returns the position written."""
        return self._append(namespace, key, None)

    def prepare_writes(self) -> None:
        """Nothing: it is ready."""

    def end_position(self) -> int:
        """The position that the next record will have."""
        with self._grown:
            return len(self.written)

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        """Every change of the namespace from `since` on, and the position of the next one."""
        with self._grown:
            found = self.written[max(since, 0) :]
            return tuple(c for c in found if c.namespace == namespace), len(self.written)

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> _MemoryWatch:
        """Calls `on_change` for every change of these namespaces from `since` (None: from now), in order.

        An exception of the callback is logged and the watch goes on.
        """

        def note(change: Change) -> None:
            if change.namespace in namespaces:
                on_change(change)

        with self._grown:
            start = len(self.written) if since is None else max(since, 0)
            watch = _MemoryWatch(self.written, self._grown, note, start)
            self._watches.append(watch)
        return watch

    def close(self) -> None:
        """Ends all watches. What was written stays readable."""
        with self._grown:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.close()

    def _append(self, namespace: str, key: str, value: bytes | None) -> int:
        with self._grown:
            position = len(self.written)
            self.written.append(Change(namespace, key, value, position, self._now_ms()))
            keys = self._newest.setdefault(namespace, {})
            if value is None:
                keys.pop(key, None)
            else:
                keys[key] = KeptValue(value, position)
            self._grown.notify_all()
        return position


class _MemoryWatch:
    def __init__(
        self,
        changes: list[Change],
        written: threading.Condition,
        on_change: Callable[[Change], None],
        start: int,
    ) -> None:
        self._changes = changes
        self._written = written
        self._on_change = on_change
        self._next = start
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="memory-store-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch and waits for its thread."""
        with self._written:
            self._closed = True
            self._written.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._written:
                self._written.wait_for(lambda: self._closed or self._next < len(self._changes))
                if self._closed:
                    return
                change = self._changes[self._next]
            self._next += 1
            try:
                self._on_change(change)
            except Exception:
                _log.exception("A watch's callback failed at position %d", change.position)
