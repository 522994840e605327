"""Finds the writers of a partition by the broker's own files: each batch names its producer.

A container has one producer per system, with an id of its own (idempotence is on). A changelog's
partition has one writer at a time, so the batches of one producer form one run there. A producer
that returns after another has written was a second owner. An output's partition has the writers
of several actives; the same holds there for each active (`owners`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")  # of a record batch, magic 2
_CONTROL = 0x20
_LOG_APPEND_TIME = 0x08


class RecordBatch(NamedTuple):
    """A batch of a partition's log."""

    first_offset: int
    next_offset: int
    producer_id: int
    at_ms: int  # the time of its newest record
    # The broker dated it at the append; otherwise the producer did, before it sent it.
    by_broker: bool = False


class Overlap(NamedTuple):
    """Two owners: `producer_id` wrote at `offset` although `other` owned the partition then.

    Between `from_ms` and `to_ms` the log has batches without a right: `producer_id`'s own, or
    `other`'s when `producer_id` is the successor, which returns because the other was there.
    """

    topic: str
    partition: int
    offset: int
    producer_id: int
    other: int  # -1 when no batch names it
    at_ms: int
    from_ms: int
    to_ms: int
    how: str = "came back after the other had written"  # the sign by which it shows


def batches(data: Path, topic: str, partition: int) -> list[RecordBatch]:
    """Return a partition's whole batches from the data directory of a broker."""
    found: list[RecordBatch] = []
    for segment in sorted((data / f"{topic}-{partition}").glob("*.log")):
        found += parse(segment.read_bytes())
    return found


def parse(data: bytes) -> list[RecordBatch]:
    """Return the batches of one segment, without an incomplete last one."""
    found: list[RecordBatch] = []
    at = 0
    while at + _HEADER.size <= len(data):
        header = _HEADER.unpack_from(data, at)
        first, length, attributes, last_delta = header[0], header[1], header[5], header[6]
        newest_ms, producer_id = header[8], header[9]
        if length <= 0 or at + 12 + length > len(data):
            break
        if not attributes & _CONTROL:
            by_broker = bool(attributes & _LOG_APPEND_TIME)
            found.append(
                RecordBatch(first, first + last_delta + 1, producer_id, newest_ms, by_broker)
            )
        at += 12 + length
    return found


def next_owner_ms(log: Sequence[RecordBatch], after_ms: int) -> int | None:
    """Return when a producer that was new after `after_ms` first wrote; None without any."""
    known = {batch.producer_id for batch in log if batch.at_ms <= after_ms}
    return next((each.at_ms for each in log if each.producer_id not in known), None)


def overlaps(topic: str, partition: int, log: Sequence[RecordBatch]) -> list[Overlap]:
    """Return each return of a producer after another had written; empty with one owner."""
    # The producer that came first into the log had lost its right.
    found: list[Overlap] = []
    came: dict[int, int] = {}
    before: list[RecordBatch] = []
    for producer, group in groupby(log, key=lambda batch: batch.producer_id):
        run = list(group)
        if producer in came:
            other = before[0].producer_id
            wrong = run if came[producer] < came[other] else before
            found.append(
                Overlap(
                    topic,
                    partition,
                    run[0].first_offset,
                    producer,
                    other,
                    run[0].at_ms,
                    wrong[0].at_ms,
                    wrong[-1].at_ms,
                )
            )
        came.setdefault(producer, len(came))
        before = run
    return found
