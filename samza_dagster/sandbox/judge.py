"""An independent judge of the demo: it reads the topics itself and trusts no counters.

A `Judge` that is kept reads only new records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samza_dagster.errors import DeadlineExceeded, Unreachable
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo_job import INPUT_TOPIC, OUTPUT_TOPIC
from samza_dagster.sandbox.ledger import Gap, LoadLedger

_SILENT_S = 20.0
"""A client that reads nothing for this long, although there is more, is replaced."""


@dataclass(frozen=True)
class OutputVerdict:
    """The judge's findings for all inputs up to its cut."""

    inputs: int
    completed: int
    outputs: int
    missing: int
    missing_examples: tuple[str, ...]
    duplicates: int
    unexplained: int
    """Outputs without all their parts in the input."""
    gaps: tuple[Gap, ...]
    seconds: float
    missing_in: tuple[int, ...] = ()
    """Partitions of the input in which something is missing."""

    @property
    def is_good(self) -> bool:
        """Return whether nothing is lost or made up; duplicates are legal after a crash."""
        return self.missing == 0 and self.unexplained == 0


class Judge:
    """Reads input and output of one job; `judge` may be called repeatedly.

    `settings` are additional settings of librdkafka, for its consumers.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.ledger = LoadLedger()
        own = {
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.max.messages.kbytes": 64 * 1024,
            **(settings or {}),
        }
        self._consumer = KeptClient[Any](
            lambda: kafka_client.consumer(bootstrap_servers, own), lambda used: used.close()
        )
        self._next: dict[tuple[str, int], int] = {}
        self._counts: dict[str, int] = {}

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()

    def judge(
        self,
        *,
        deadline_s: float = 60.0,
        partitions: Sequence[int] | None = None,
        window_ms: tuple[int, int] | None = None,
    ) -> OutputVerdict:
        """Judge all inputs that are there now; wait for their outputs until the deadline.

        `partitions` (all when None) and `window_ms`, in broker time, limit the search for
        silences. Raises `DeadlineExceeded` when the topics can't be read in time, `Unreachable`
        without a broker until then.
        """
        started = time.monotonic()
        deadline = started + deadline_s
        self._read(INPUT_TOPIC, deadline)
        asked = set(self.ledger.missing)
        self._read(OUTPUT_TOPIC, deadline)
        while (asked & self.ledger.missing) and time.monotonic() < deadline:
            self._read(OUTPUT_TOPIC, deadline, wait_s=0.2)
        missing = asked & self.ledger.missing
        # An output may stem from inputs after the cut: read on before calling it made up.
        self._read(INPUT_TOPIC, max(deadline, time.monotonic() + 10))
        window = window_ms or (0, int(time.time() * 1000))
        numbers = range(self._counts[INPUT_TOPIC]) if partitions is None else partitions
        gaps = [self.ledger.longest_gap(number, *window) for number in numbers]
        return OutputVerdict(
            self.ledger.inputs,
            self.ledger.completed,
            self.ledger.outputs,
            len(missing),
            tuple(self.ledger.describe(missing)),
            self.ledger.duplicates,
            len(self.ledger.early),
            tuple(gap for gap in gaps if gap is not None),
            round(time.monotonic() - started, 2),
            self.ledger.partitions_of(missing),
        )

    def _read(self, topic: str, deadline: float, wait_s: float = 0.0) -> None:
        """Read the topic up to its present end; with `wait_s` wait first."""
        # A client that can't reach the broker is replaced by a new one, until the deadline.
        if wait_s:
            time.sleep(wait_s)
        while True:
            try:
                with self._consumer.use() as consumer:
                    return self._read_by(consumer, topic, deadline)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _read_by(self, consumer: Any, topic: str, deadline: float) -> None:
        ends = kafka_client.end_offsets(consumer, topic)
        self._counts[topic] = len(ends)
        left = {
            number: end
            for number, end in enumerate(ends)
            if self._next.get((topic, number), 0) < end
        }
        if not left:
            return
        consumer.assign(
            [kafka_client.partition(topic, n, self._next.get((topic, n), 0)) for n in left]
        )
        heard = time.monotonic()
        try:
            while left:
                for message in consumer.consume(10_000, timeout=0.2):
                    if message.error() is None:
                        heard = time.monotonic()
                        self._take(topic, message, left)
                seen = f"partitions {sorted(left)} not read to their ends"
                if left and time.monotonic() > deadline:
                    raise DeadlineExceeded(f"read {topic}", seen=seen)
                if left and time.monotonic() > heard + _SILENT_S:
                    raise Unreachable(f"read {topic}", seen=f"{seen}, {_SILENT_S:.0f} s of silence")
        finally:
            consumer.unassign()

    def _take(self, topic: str, message: Any, left: dict[int, int]) -> None:
        number, offset = message.partition(), message.offset()
        if offset < self._next.get((topic, number), 0):
            return
        self._next[topic, number] = offset + 1
        if offset + 1 >= left.get(number, 0):
            left.pop(number, None)
        if topic == INPUT_TOPIC:
            self.ledger.add_input(number, message.key(), message.value(), message.timestamp()[1])
        else:
            self.ledger.add_output(message.key(), message.value(), message.timestamp()[1])
