"""Counts the changelog records that a moved active read, against those new to its host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo_job import CHANGELOG_TOPIC
from samza_dagster.sandbox.readiness import applied_offset

# `KeyValueStorageEngine` of Samza 1.8.0, at the end of each store's restore.
_RESTORED = re.compile(r"(\d+) total entries restored for store: .*?/Partition_(\d+)\b")


def restored_records(log: str) -> dict[int, int]:
    """Return partition → records that the container's start read from the changelog, by its log."""
    # Empty until the container has finished its restore.
    return {int(partition): int(count) for count, partition in _RESTORED.findall(log)}


@dataclass(frozen=True)
class Restored:
    """Numbers of records: read by the active, in the changelog, new since the standby left."""

    restored: int
    changelog: int
    produced_in_gap: int


class RestoreWatch:
    """The restore of an active with these changelog `partitions` on the host of its standby.

    `state` is the directory of that host's stores.
    """

    def __init__(self, servers: str, state: Path, partitions: Sequence[int]) -> None:
        self._servers = servers
        self._state = state
        self._partitions = tuple(partitions)
        self._applied: dict[int, int] = {}
        self._ends: tuple[int, ...] = ()

    def note_standby_left(self) -> None:
        """Note the offsets of the standby's store, which the active won't have to restore."""
        for partition in self._partitions:
            offset = applied_offset(self._state, f"Partition {partition}")
            if offset is not None:
                self._applied[partition] = offset

    def note_active_arrived(self) -> None:
        """Note the ends of the changelog."""
        with contextlib.closing(kafka_client.consumer(self._servers)) as consumer:
            self._ends = kafka_client.end_offsets(consumer, CHANGELOG_TOPIC)

    def result(self, log: str) -> Restored | None:
        """Return the numbers by the log of the active's new incarnation; None while incomplete."""
        restored = restored_records(log)
        known = restored.keys() & self._applied.keys()
        if not known >= set(self._partitions) or not self._ends:
            return None
        return Restored(
            restored=sum(restored[p] for p in self._partitions),
            changelog=sum(self._ends[p] for p in self._partitions),
            produced_in_gap=sum(
                max(0, self._ends[p] - 1 - self._applied[p]) for p in self._partitions
            ),
        )
