"""`MetadataStore` (SAMZA-1554): keys to values, in Kafka's coordinator stream or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Change:
    """One record as it was written; `value` None is a deletion.

    `position` is the record's offset in the stream (a counter in memory),
    `timestamp_ms` the broker's record timestamp.
    """

    namespace: str
    key: str
    value: bytes | None
    position: int
    timestamp_ms: int


class Kept(NamedTuple):
    """The newest value of a key, and the position of the record that wrote it (`Change`)."""

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
        """The newest value, read up to the end at the time of the call; None when absent."""
        ...

    def all(self, namespace: str) -> dict[str, bytes]:
        """Every key of a namespace with its newest value."""
        ...

    def whole(self) -> dict[str, dict[str, Kept]]:
        """Every namespace with its keys and their newest values, as of one reading."""
        ...

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """The record timestamp of the newest value of each of these keys, also where it was deleted since.

        Of what was read until now, so nobody is asked; of deleted values as far as compaction has
        left them.
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
        """The position that the next record will have."""
        ...

    def changes(self, from_position: int) -> tuple[tuple[Change, ...], int]:
        """Every record from `from_position` up to the end at the time of the call, and that end.

        Compaction may have removed records that were overwritten since.
        """
        ...

    def watch(
        self, on_change: Callable[[Change], None], *, from_position: int | None = None
    ) -> Watch:
        """Calls `on_change` for every record from `from_position` (None: from now), in order.

        By tailing: a record is seen within 100 ms of being written.
        """
        ...

    def close(self) -> None:
        """Releases connections."""
        ...
