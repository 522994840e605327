"""A `MetadataStore` of another kind: a node for each key with its newest value, as ZooKeeper has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from samza_dagster.metadata.interface import Change, Kept


class KeyedStore:
    """Counts its changes and keeps no log: what was overwritten or deleted is gone.

    Watches are told in the thread that writes.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str], Change] = {}
        self._count = 0
        self._watches: list[KeyedWatch] = []

    def get(self, namespace: str, key: str) -> bytes | None:
        found = self._nodes.get((namespace, key))
        return None if found is None else found.value

    def all(self, namespace: str) -> dict[str, bytes]:
        return {key: kept.value for key, kept in self.whole().get(namespace, {}).items()}

    def whole(self) -> dict[str, dict[str, Kept]]:
        found: dict[str, dict[str, Kept]] = {}
        for (namespace, key), change in self._nodes.items():
            if change.value is not None:
                found.setdefault(namespace, {})[key] = Kept(change.value, change.position)
        return found

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        there = {
            key: self._nodes[namespace, key] for key in keys if (namespace, key) in self._nodes
        }
        return {key: change.timestamp_ms for key, change in there.items()}

    def put(self, namespace: str, key: str, value: bytes) -> int:
        return self._change(namespace, key, value)

    def remove(self, namespace: str, key: str) -> int:
        return self._change(namespace, key, None)

    def prepare_writes(self) -> None: ...

    def end_position(self) -> int:
        return self._count + 1

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        return self._since({namespace}, since), self.end_position()

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> KeyedWatch:
        watch = KeyedWatch(self._watches, namespaces, on_change)
        for change in () if since is None else self._since(namespaces, since):
            on_change(change)
        return watch

    def close(self) -> None:
        self._watches.clear()

    def _since(self, namespaces: Collection[str], since: int) -> tuple[Change, ...]:
        found = (c for c in self._nodes.values() if c.namespace in namespaces)
        return tuple(sorted((c for c in found if c.position >= since), key=lambda c: c.position))

    def _change(self, namespace: str, key: str, value: bytes | None) -> int:
        self._count += 1
        change = Change(namespace, key, value, self._count, self._count)
        self._nodes.pop((namespace, key), None)
        if value is not None:
            self._nodes[namespace, key] = change
        for watch in tuple(self._watches):
            if namespace in watch.namespaces:
                watch.on_change(change)
        return self._count


class KeyedWatch:
    """One watch of a `KeyedStore`."""

    def __init__(
        self,
        running: list[KeyedWatch],
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
    ) -> None:
        self.namespaces, self.on_change = namespaces, on_change
        self._running = running
        running.append(self)

    def close(self) -> None:
        if self in self._running:
            self._running.remove(self)
