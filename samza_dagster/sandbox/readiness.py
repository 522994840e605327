"""When a sandbox is up: every container runs, the fill is processed, standbys are near."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.sandbox import kafka_client, standby_lag
from samza_dagster.sandbox.demo_job import CHANGELOG_TOPIC, OUTPUT_TOPIC

RUNNING = "running"
CLOSE_S = 10.0
"""A standby is caught up when it lacks no more than the load sends in this time; it writes
its offset every commit (5 s)."""


class Readiness:
    """Reads whoever runs the containers, the broker and the hosts' disks; decides nothing.

    `processors` tells what runs, by processor id (`state`, `host`), and may raise
    `Unreachable`; `state_directories` are the hosts' own.
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
        self._copies: tuple[int, ...] = ()

    def close(self) -> None:
        """Lets go of the broker."""
        self._consumer.close()

    def all_running(self) -> bool:
        """Every processor of the job is running; raises what `processors` does of a part that died."""
        try:
            self._last = self._processors()
        except Unreachable:
            return False
        return len(self._last) >= self._wanted and all(
            each.get("state") == RUNNING for each in self._last.values()
        )

    def outputs(self) -> int:
        """Records that the job has put out; raises `Unreachable`."""
        return sum(self._ends(OUTPUT_TOPIC))

    def standbys_ready(self, rate: float) -> bool:
        """All run, and every task has its active's and all standbys' stores near the changelog."""
        if not self.all_running():
            return False
        ends = self._ends(CHANGELOG_TOPIC)
        self._copies = standby_lag.near_copies(
            self._directories, ends, max(100, round(rate * CLOSE_S))
        )
        return all(copies > self._standbys for copies in self._copies)

    def explain(self) -> str:
        """What is still waited for."""
        states = {
            processor_id: f"{each.get('state')} on {each.get('host')}"
            for processor_id, each in self._last.items()
        }
        return f"processors {states or 'unknown'}, {self.outputs()} outputs, near copies per partition {self._copies}"

    def _ends(self, topic: str) -> tuple[int, ...]:
        try:
            return self._ends_by_kept(topic)
        except Unreachable:
            return self._ends_by_kept(topic)  # by a new client: the broker may well be there

    def _ends_by_kept(self, topic: str) -> tuple[int, ...]:
        with self._consumer.use() as consumer:
            return kafka_client.end_offsets(consumer, topic)
