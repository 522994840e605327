"""When a container's tasks stopped working and when they worked again, by the topics that they write.

A task writes its changelog while it processes, so the records on both sides of a restart tell its
downtime, by one clock where the topic has the broker's (`message.timestamp.type=LogAppendTime`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition

from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster

BUSY_MS = 60_000
"""A partition in which nothing was written for so long before a restart tells nothing of it."""
LEAST_MS = 500
"""No container starts within this: a shorter silence says that clocks disagree on when it was down."""
_BEFORE = 20
"""So many offsets before the first record after a restart hold the last one before: markers and holes have some."""

Partition = tuple[str, int]


@dataclass(frozen=True)
class Silence:
    """The silence of one task around a moment: its last record before and its first one after, in ms."""

    before_ms: int | None
    after_ms: int | None


@dataclass(frozen=True)
class Downtime:
    """Downtime of a container. `last_ms` is its newest record before, `works_ms` when all its tasks worked.

    `works_ms` and `seconds` are None while one of them doesn't. `seconds` is the longest silence of
    a task.
    """

    last_ms: int
    works_ms: int | None
    seconds: float | None


def downtime(tasks: Mapping[str, Sequence[Silence]], around_ms: int) -> Downtime | None:
    """Return a container's downtime by the silences of each task's partitions.

    Partitions that were idle before don't count. None: all were idle, or the clocks behind the
    records' times disagree, so nothing is known.
    """
    lasts: list[int] = []
    ends: list[int] = []
    longest_ms, pending = 0, False
    for silences in tasks.values():
        busy = [
            s for s in silences if s.before_ms is not None and s.before_ms > around_ms - BUSY_MS
        ]
        if not busy:
            continue
        last_ms = max(s.before_ms or 0 for s in busy)
        lasts.append(last_ms)
        firsts = [s.after_ms for s in busy if s.after_ms is not None]
        if not firsts:
            pending = True
            continue
        ends.append(min(firsts))
        longest_ms = max(longest_ms, min(firsts) - last_ms)
    if not lasts:
        return None
    if pending:
        return Downtime(max(lasts), None, None)
    if longest_ms < LEAST_MS:
        return None
    return Downtime(max(lasts), max(ends), longest_ms / 1000)


class WorkReader(Protocol):
    """Measures a container's downtime."""

    def around(self, tasks: Mapping[str, Sequence[Partition]], around_ms: int) -> Downtime | None:
        """Return the downtime around a moment at which the container was down; None: not known.

        `tasks` are its tasks with their changelogs' partitions. Raises `Unreachable`.
        """
        ...


class TopicWork:
    """`WorkReader` over the job's changelogs."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def around(self, tasks: Mapping[str, Sequence[Partition]], around_ms: int) -> Downtime | None:
        """Read both sides of the silence; a record or two for each partition."""
        asked = {partition for partitions in tasks.values() for partition in partitions}
        if not asked:
            return None
        try:
            found = self._silences(asked, around_ms)
        except KafkaException as error:
            what = "read when changelogs were written"
            raise self._cluster.failure(what, error.args[0], ANSWER_S) from error
        of_tasks = {task: [found[at] for at in mine] for task, mine in tasks.items()}
        return downtime(of_tasks, around_ms)

    def _silences(self, asked: Collection[Partition], around_ms: int) -> dict[Partition, Silence]:
        found: dict[Partition, Silence] = {}
        consumer = self._cluster.reader(committed_only=False)
        try:
            wanted = [TopicPartition(topic, number, around_ms) for topic, number in sorted(asked)]
            for first in consumer.offsets_for_times(wanted, timeout=ANSWER_S):
                at = first.topic, first.partition
                if first.error is not None:
                    raise KafkaException(first.error)
                _, end = consumer.get_watermark_offsets(TopicPartition(*at), timeout=ANSWER_S)
                is_over = 0 <= first.offset < end
                upto = first.offset + 1 if is_over else end
                times = self._times(at, max(0, upto - _BEFORE), upto)
                after = [ms for ms in times if ms >= around_ms]
                before = [ms for ms in times if ms < around_ms]
                found[at] = Silence(
                    max(before, default=None), min(after, default=None) if is_over else None
                )
        finally:
            consumer.close()
        return found

    def _times(self, at: Partition, start: int, end: int) -> list[int]:
        """Return the times of the records from `start` to before `end`."""
        times: list[int] = []
        consumer = self._cluster.reader(committed_only=False)
        deadline = time.monotonic() + ANSWER_S
        try:
            consumer.assign([TopicPartition(*at, start)])
            position = start
            while position < end:
                if time.monotonic() > deadline:
                    raise self._cluster.unreachable(f"read topic {at[0]}", ANSWER_S)
                message = consumer.poll(0.1)
                if message is None:
                    continue
                offset = message.offset()
                if message.error() is not None or offset is None:  # the end of the partition
                    position = end if offset is None else max(position, offset)
                    continue
                position = offset + 1
                if position <= end:
                    times.append(message.timestamp()[1])
        finally:
            consumer.close()
        return times
