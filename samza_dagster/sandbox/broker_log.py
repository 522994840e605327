"""Who wrote what, by the broker's own files: each batch names the producer that it is from.

A container has one producer a system, with an id of its own (idempotence is on). A
changelog's partition has one writer at a time, so the batches of one producer form one
run there: one that comes back after another has written was a second owner. An output's
partition has the writers of several actives; of each active the same holds there (`owners`).
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
    """One batch of a partition's log; `at_ms` is its newest record's time.

    `by_broker`: the broker dated it as it appended it; else the producer did, before it sent it.
    """

    first_offset: int
    next_offset: int
    producer_id: int
    at_ms: int
    by_broker: bool = False


class Overlap(NamedTuple):
    """Two owners: `producer_id` wrote at `offset` what was `other`'s to write; `how` it shows.

    `other` is -1 where no batch names it. From `from_ms` to `to_ms` batches came that weren't
    their writer's to write: `producer_id`'s own, or `other`'s where `producer_id` is the
    successor, which comes back because the other was there.
    """

    topic: str
    partition: int
    offset: int
    producer_id: int
    other: int
    at_ms: int
    from_ms: int
    to_ms: int
    how: str = "came back after the other had written"


def batches(data: Path, topic: str, partition: int) -> list[RecordBatch]:
    """A partition as the broker whose data this is has it on disk, whole batches alone."""
    found: list[RecordBatch] = []
    for segment in sorted((data / f"{topic}-{partition}").glob("*.log")):
        found += parse(segment.read_bytes())
    return found


def parse(data: bytes) -> list[RecordBatch]:
    """The batches of one segment; a last one that isn't whole yet is left out."""
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
    """When somebody wrote for the first time who hadn't by `after_ms`; None while nobody has."""
    known = {batch.producer_id for batch in log if batch.at_ms <= after_ms}
    return next((each.at_ms for each in log if each.producer_id not in known), None)


def overlaps(topic: str, partition: int, log: Sequence[RecordBatch]) -> list[Overlap]:
    """Each return of a producer after another had written; empty when there was one owner.

    Of the two the one that came first into the log had no right to write any more.
    """
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
