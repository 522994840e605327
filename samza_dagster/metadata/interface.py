"""`MetadataStore` (SAMZA-1554): keys to values, and who changes them.

In Kafka's coordinator stream, in memory, or anywhere that counts its changes, as ZooKeeper does. That
overwritten values can be read again is what a log adds: nobody may rely on it.
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
    """Logs a record that can't be read, where nobody asked to be told."""
    _log.warning("Skipped a record: %s", error)


def wall_clock_ms() -> int:
    """Ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Change:
    """A key's value as it was written; `value` None is a deletion.

    `position` counts the store's changes: a later change has a higher one (in a stream the record's
    offset). `timestamp_ms` is when it was written, by the store's clock.
    """

    namespace: str
    key: str
    value: bytes | None
    position: int
    timestamp_ms: int


class KeptValue(NamedTuple):
    """The newest value of a key, and the position of the change that wrote it (`Change`)."""

    value: bytes
    position: int


class Watch(Protocol):
    """A running watch; `close` ends it and waits for its thread."""

    def close(self) -> None:
        """Ends the watch."""
        ...


class MetadataStore(Protocol):
    """A keyed store in namespaces (in the coordinator stream: the message's type)."""

    def get(self, namespace: str, key: str) -> bytes | None:
        """The newest value of those written before the call; None when absent."""
        ...

    def all(self, namespace: str) -> dict[str, bytes]:
        """Every key of a namespace with its newest value."""
        ...

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        """Every namespace with its keys and their newest values, as of one reading."""
        ...

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """When each of these keys got its newest value, also where that was deleted since.

        Of what was read until now, so nobody is asked; of deleted values as far as the store still
        has them.
        """
        ...

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """Writes and waits for the acknowledgement; returns the position written."""
        ...

    def remove(self, namespace: str, key: str) -> int:
        """Deletes the key (if such a key exists); returns the position written."""
        ...

    def prepare_writes(self) -> None:
        """Gets ready for the first `put` or `remove`, and doesn't wait for it."""
        ...

    def end_position(self) -> int:
        """Whatever is written after this call has this position or a higher one."""
        ...

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        """Changes of a namespace's keys from the position `since` on, in order, and where to go on.

        The newest value of each key that was written since; what that overwrote, and deletions, as
        far as the store still has them.
        """
        ...

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> Watch:
        """Calls `on_change` for `changes` of these namespaces (None: none yet), then for each as it is written.

        In order of position; a change is seen within 100 ms of being written.
        """
        ...

    def close(self) -> None:
        """Releases connections."""
        ...
