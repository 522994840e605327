"""`MetadataStore` (SAMZA-1554): keys, their values and their changes.

Implementations are Kafka's coordinator stream, a memory store, and any store that counts its
changes, such as ZooKeeper. Only a log keeps overwritten values, so callers must not rely on them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from samza_dagster.errors import MalformedRecord

OnMalformed = Callable[[MalformedRecord], None]
_log = logging.getLogger(__name__)


def log_malformed(error: MalformedRecord) -> None:
    """Log an unreadable record, for callers without a handler of their own."""
    _log.warning("Skipped a record: %s", error)


def wall_clock_ms() -> int:
    """Return the time in ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Change:
    """A written value of a key."""

    namespace: str
    key: str
    value: bytes | None  # None is a deletion
    # Counts the store's changes: a later change has a higher one. The offset in a stream.
    position: int
    timestamp_ms: int  # the time of the write, by the store's clock


class KeptValue(NamedTuple):
    """The newest value of a key, and the position of its change (`Change`)."""

    value: bytes
    position: int


class Watch(Protocol):
    """A running watch; `close` ends it and waits for its thread."""

    def close(self) -> None:
        """End the watch."""
        ...


class MetadataStore(Protocol):
    """A keyed store in namespaces (in the coordinator stream: the message's type)."""

    def get(self, namespace: str, key: str) -> bytes | None:
        """Return the newest value written before the call; None when absent."""
        ...

    def all(self, namespace: str) -> dict[str, bytes]:
        """Return every key of a namespace with its newest value."""
        ...

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        """Return every namespace with its keys and their newest values, as of one reading."""
        ...

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """Return when each of these keys got its newest value, also if it was deleted since.

        This uses earlier readings alone, without a request. Deleted values count as far as the
        store still has them.
        """
        ...

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """Write and wait for the acknowledgement; return the position written."""
        ...

    def remove(self, namespace: str, key: str) -> int:
        """Delete the key (if it exists); return the position written."""
        ...

    def prepare_writes(self) -> None:
        """Prepare the first `put` or `remove`, without a wait."""
        ...

    def end_position(self) -> int:
        """Return a position that no later write is below."""
        ...

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        """Return a namespace's changes from the position `since` on, in order, and where to go on.

        They include the newest value of each key that was written since. They include overwritten
        values and deletions as far as the store still has them.
        """
        ...

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> Watch:
        """Call `on_change` for `changes` of these namespaces, then for each new one.

        `since` None skips earlier changes. The order is that of positions; a change arrives
        within 100 ms of its write.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...
