"""Readiness of a sandbox: every container runs, the fill is processed, standbys are near."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.model import naming
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo_job import CHANGELOG_TOPIC, JOB_ID, JOB_NAME, OUTPUT_TOPIC, STORE

RUNNING = "running"
CLOSE_S = 10.0
"""A standby is caught up when it lacks no more records than the load sends in this time. It
writes its offset every commit (5 s)."""


def applied_offset(state_directory: Path, task_name: str) -> int | None:
    """Return the offset of the last record in the task's store on this host; None without one."""
    # `OFFSET-v2` beside it has Java framing and a checksum, then
    # `{"kafka.<changelog>.<partition>":"<offset>"}`. A byte of the checksum may be a `{` by chance,
    # so the JSON begins at the last `{"`.
    store = state_directory / naming.store_directory(JOB_NAME, JOB_ID, STORE, task_name)
    try:
        content = (store / "OFFSET-v2").read_bytes()
        offsets: dict[str, str] = json.loads(content[content.rindex(b'{"') :])
        return int(next(iter(offsets.values())))
    except (OSError, ValueError, StopIteration):
        return None


def near_copies(
    state_directories: Iterable[Path], ends: tuple[int, ...], bound: int
) -> tuple[int, ...]:
    """Return, per partition, the number of hosts with a store that lacks at most `bound` records.

    `ends` are the end offsets of the changelog. The active's own store counts as one.
    """
    directories = tuple(state_directories)
    return tuple(
        sum(
            applied is not None and end - 1 - applied <= bound
            for applied in (applied_offset(each, f"Partition {number}") for each in directories)
        )
        for number, end in enumerate(ends)
    )


class Readiness:
    """Reads the containers' runner, the broker and the hosts' disks; decides nothing.

    `processors` returns the running processors by id (`state`, `host`), and may raise
    `Unreachable`. `state_directories` are the hosts' own.
    """

    def __init__(
        self,
        processors: Callable[[], Mapping[str, Mapping[str, Any]]],
        state_directories: Sequence[Path],
        bootstrap_servers: str,
        *,
        wanted: int,
        standbys: int,
    ) -> None:
        self._processors = processors
        self._directories = tuple(state_directories)
        self._consumer = KeptClient[Any](
            lambda: kafka_client.consumer(bootstrap_servers), lambda used: used.close()
        )
        self._wanted = wanted
        self._last: Mapping[str, Mapping[str, Any]] = {}
        self._standbys = standbys
        self._outputs = 0
        self._copies: tuple[int, ...] = ()

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()

    def are_all_running(self) -> bool:
        """Return whether every processor of the job runs; raise what `processors` raises."""
        try:
            self._last = self._processors()
        except Unreachable:
            return False
        return len(self._last) >= self._wanted and all(
            each.get("state") == RUNNING for each in self._last.values()
        )

    def outputs(self) -> int:
        """Return the number of the job's outputs; raise `Unreachable`."""
        self._outputs = sum(self._ends(OUTPUT_TOPIC))
        return self._outputs

    def are_standbys_ready(self, rate: float) -> bool:
        """Return whether all run and each task's stores are near the changelog's end.

        Counts the active's and all standbys' stores. Raises `Unreachable`.
        """
        if not self.are_all_running():
            return False
        ends = self._ends(CHANGELOG_TOPIC)
        self._copies = near_copies(self._directories, ends, max(100, round(rate * CLOSE_S)))
        return all(copies > self._standbys for copies in self._copies)

    def explain(self) -> str:
        """Return what is still missing."""
        states = {
            processor_id: f"{each.get('state')} on {each.get('host')}"
            for processor_id, each in self._last.items()
        }
        return f"processors {states or 'unknown'}, {self._outputs} outputs, near copies per partition {self._copies}"

    def _ends(self, topic: str) -> tuple[int, ...]:
        try:
            return self._ends_by_kept(topic)
        except Unreachable:
            return self._ends_by_kept(topic)  # by a new client, since the broker may well be there

    def _ends_by_kept(self, topic: str) -> tuple[int, ...]:
        with self._consumer.use() as consumer:
            return kafka_client.end_offsets(consumer, topic)
