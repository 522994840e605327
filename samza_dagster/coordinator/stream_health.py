"""Can containers still start? Each reads the whole coordinator stream first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE

log = logging.getLogger(__name__)


class StreamHealth:
    """Health of the coordinator stream: whether a starting container can read it whole.

    Samza's reader ends at a key that is no JSON array (`CoordinatorStreamKeySerde`). Such a
    key was seen at some offset: then each question reads the stream anew, since it may be
    gone by compaction. `read_bad_keys` names those that are there now.
    """

    def __init__(self, read_bad_keys: Callable[[], Sequence[str]]) -> None:
        self._read_bad_keys = read_bad_keys
        self._suspected = False

    def note(self, error: MalformedRecord) -> None:
        """A key that can't be read was met."""
        log.warning("no container could start: %s", error)
        self._suspected = True

    def no_start_because(self) -> str:
        """Return what would end a container at its start, and what to do; empty when nothing would."""
        if not self._suspected:
            return ""
        found = self._read_bad_keys()
        self._suspected = bool(found)
        if not found:
            return ""
        return (
            f"a record ends Samza's reader of the coordinator stream: {'; '.join(found)}; stop "
            "whoever writes it, write a deletion of that key, and wait for the compaction"
        )


def followed_stream(connection: Connection) -> tuple[KafkaMetadataStore, StreamHealth]:
    """Return a store of what was committed to the coordinator stream, and its health."""
    health = StreamHealth(lambda: bad_keys(connection))
    store = KafkaMetadataStore.of(connection, on_malformed=health.note, committed_only=True)
    return store, health


def bad_keys(connection: Connection) -> tuple[str, ...]:
    """Records of the coordinator stream whose key no Samza container can read."""
    found: list[str] = []
    store = KafkaMetadataStore.of(connection, on_malformed=lambda error: found.append(error.seen))
    with closing(store):
        store.all(PLACEMENT_NAMESPACE)
    return tuple(dict.fromkeys(found))
