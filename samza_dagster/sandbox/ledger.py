"""The expected outputs of the Joiner, counted from its inputs alone (pure).

A (key, epoch) is complete when all its parts are in the input. Each must appear once in the
output. A second time is a duplicate, which at-least-once processing may cause after a crash.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from samza_dagster.errors import MalformedRecord
from samza_dagster.sandbox.demo_job import PARTS

KeyEpoch = tuple[int, int]
"""(number of the key in the ledger, epoch)."""


def parse_part(value: bytes) -> tuple[int, int]:
    """Return (epoch, part) of an input `<epoch>-Partition <part>`; raise `MalformedRecord`."""
    epoch, separator, part = value.partition(b"-Partition ")
    try:
        if separator:
            return int(epoch), int(part)
    except ValueError:
        pass
    raise MalformedRecord("read an input of the demo", seen=repr(value[:40]))


@dataclass(frozen=True)
class Gap:
    """The longest silence of one partition's outputs, in broker time (ms)."""

    partition: int
    gap_ms: int
    from_ms: int
    to_ms: int
    usual_ms: int
    """The 99th percentile of this partition's other gaps."""


@dataclass
class LoadLedger:
    """The counts of inputs and outputs, which may be added in any order."""

    parts: int = PARTS
    inputs: int = 0
    outputs: int = 0
    completed: int = 0
    duplicates: int = 0
    missing: set[KeyEpoch] = field(default_factory=set[KeyEpoch])
    """Complete in the input, not put out (yet)."""
    early: set[KeyEpoch] = field(default_factory=set[KeyEpoch])
    """Put out, not complete in the inputs read so far."""
    _numbers: dict[bytes, int] = field(default_factory=dict[bytes, int])
    _partitions: list[int] = field(default_factory=list[int])
    _texts: list[str] = field(default_factory=list[str])
    _open: dict[KeyEpoch, int] = field(default_factory=dict[KeyEpoch, int])
    _complete: set[KeyEpoch] = field(default_factory=set[KeyEpoch])
    _times: dict[int, array[int]] = field(default_factory=dict[int, "array[int]"])
    _last_input_ms: dict[int, int] = field(default_factory=dict[int, int])
    _orphans: array[int] = field(default_factory=lambda: array("q"))

    def _number(self, key: bytes) -> int:
        digest = hashlib.blake2b(key, digest_size=8).digest()
        number = self._numbers.setdefault(digest, len(self._partitions))
        if number == len(self._partitions):
            self._partitions.append(-1)
            self._texts.append(key[:24].decode(errors="replace"))
        return number

    def add_input(self, partition: int, key: bytes, value: bytes, timestamp_ms: int = 0) -> None:
        """Add a record of the input topic, dated by the broker."""
        epoch, part = parse_part(value)
        self.inputs += 1
        self._last_input_ms[partition] = timestamp_ms
        number = self._number(key)
        self._partitions[number] = partition
        entry = (number, epoch)
        if entry in self._complete:
            return
        mask = self._open.get(entry, 0) | (1 << part)
        if mask != (1 << self.parts) - 1:
            self._open[entry] = mask
            return
        self._open.pop(entry, None)
        self._complete.add(entry)
        self.completed += 1
        if entry in self.early:
            self.early.discard(entry)
        else:
            self.missing.add(entry)

    def add_output(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Add a record of the output topic, dated by the broker."""
        try:
            epoch = int(value)
        except ValueError as error:
            raise MalformedRecord("read an output of the demo", seen=repr(value[:40])) from error
        self.outputs += 1
        number = self._number(key)
        entry = (number, epoch)
        if entry in self.missing:
            self.missing.discard(entry)
        elif entry in self._complete or entry in self.early:
            self.duplicates += 1
        else:
            self.early.add(entry)
        partition = self._partitions[number]
        times = self._times.setdefault(partition, array("q")) if partition >= 0 else self._orphans
        times.append(timestamp_ms)

    def describe(self, entries: Iterable[KeyEpoch], limit: int = 20) -> list[str]:
        """Return the first few as text, sorted by partition, beginning of the key and epoch."""
        # The order of reading would differ, because partitions come in any order.
        found = heapq.nsmallest(
            limit,
            ((self._partitions[number], self._texts[number], epoch) for number, epoch in entries),
        )
        return [f"partition {number} key {key}… epoch {epoch}" for number, key, epoch in found]

    def partitions_of(self, entries: Iterable[KeyEpoch]) -> tuple[int, ...]:
        """Return the input partitions of their keys, in order."""
        return tuple(sorted({self._partitions[number] for number, _ in entries}))

    def longest_gap(self, partition: int, from_ms: int, to_ms: int) -> Gap | None:
        """Return the longest silence that touches the window; None with less than three outputs.

        A silence counts from the last output before the window to the first after it. A silence
        that lasts ends at `to_ms` or with the inputs, because no output is due without inputs.
        """
        to_ms = min(to_ms, self._last_input_ms.get(partition, to_ms))
        times = array("q", sorted(self._times.get(partition, array("q"))))
        if len(times) < 3:
            return None
        first = max(0, bisect_left(times, from_ms) - 1)
        last = min(len(times), bisect_right(times, to_ms) + 1)
        seen = list(times[first:last])
        if seen and seen[-1] < to_ms:
            seen.append(to_ms)
        if len(seen) < 2:
            return None
        gap, start, end = max((b - a, a, b) for a, b in itertools.pairwise(seen))
        others = sorted(b - a for a, b in itertools.pairwise(times) if a != start)
        usual = others[int(len(others) * 0.99)] if others else 0
        return Gap(partition, gap, start, end, usual)
