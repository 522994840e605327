"""Read what the job reports in its topics: lag of replicas, progress of actives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from samza_dagster.client.checkpoints import ProcessorProgress, task_progress
from samza_dagster.client.replica_lag import (
    asked_times,
    input_lags,
    input_topics,
    is_own_report,
    replica_lags,
    store_replicas,
)
from samza_dagster.client.views import (
    InputLag,
    JobView,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.errors import InvalidInput, MalformedRecord, Unreachable
from samza_dagster.metadata.job_topics import JobTopics
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import TaskMode
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.checkpoints import Checkpoint, checkpoint_key, decode_checkpoint
from samza_dagster.model.metrics_snapshots import TaskSample, metrics_topics, task_samples
from samza_dagster.model.naming import checkpoint_topic

if TYPE_CHECKING:
    from samza_dagster.client.group import GroupReader
    from samza_dagster.client.stream_reader import StreamReader

# A metrics reporter that is late by two intervals isn't taken for dead.
_METRICS_INTERVALS = 3
# How far back the last checkpoint of a task is looked for, by the times of commits ...
_CHECKPOINT_LOOK_BACK_MS = 600_000
# ... and how many commits before a place, whatever their times are: a host's clock may be wrong.
_COMMITS_BEFORE = 2_000


def read_lag(
    view: JobView, reader: StreamReader | GroupReader, topics: JobTopics
) -> tuple[tuple[ReplicaLag, ...], int]:
    """Lag of every replica of every store partition; `basis` says how it is known.

    And the offset of the job's newest commit, 0 where none had to be read: none has while our
    coordinator says that all actives run. What can't be read makes the replicas unknown that it is
    about, and no others.
    """
    config = reader.config()
    stores = store_changelogs(config)
    if not stores:
        return (), 0
    # Of two reporters of one container the more frequent is read last: its word is newer.
    reporters = sorted(metrics_topics(config).items(), key=lambda each: -each[1])
    unread: list[Unreachable] = []
    owners = {task: p for p in view.processors.values() for task in p.tasks}

    def counts(sample: TaskSample) -> bool:
        owner = owners.get(sample.task_name)
        return owner is not None and is_own_report(owner, sample)

    samples: dict[str, TaskSample] = {}
    for topic, interval_s in reporters:
        last_ms = _METRICS_INTERVALS * interval_s * 1000
        for record in _read(topics.tail(topic, last_ms), unread):
            sampled = task_samples([record.value], view.job_name, view.job_id, counts=counts)
            for task, sample in sampled.items():
                if task not in samples or not sample.is_of_a_former(samples[task]):
                    samples[task] = sample._replace(came_ms=record.timestamp_ms)
    actives = (p for p in view.processors.values() if p.mode is TaskMode.ACTIVE)
    idle = any(not p.is_running for p in actives)
    unread_checkpoints: list[Unreachable] = []
    checkpoints = _newest_checkpoints(view, topics, unread_checkpoints) if idle else {}
    # Ends after applied offsets: a lag is never too small.
    ranges = topics.offset_ranges({store.topic for store in stores})
    replicas = store_replicas(view, stores, reader.changelog_partitions(), ranges)
    times = asked_times(replicas, samples, round(view.report_patience_s * 1000))
    lags = replica_lags(
        replicas,
        samples=samples,
        checkpoints=checkpoints,
        patience_ms=round(view.report_patience_s * 1000),
        first_since=topics.offsets_since(times) if times else {},
        unread_samples=_why(unread),
        unread_checkpoints=_why(unread_checkpoints),
    )
    return lags, max((one.offset for one in checkpoints.values()), default=0)


def read_input_lag(view: JobView, topics: JobTopics) -> tuple[InputLag, ...]:
    """Return how far each active is behind its input, of those that committed in the last ten minutes.

    Raises `Unreachable` when checkpoints can't be read, since their owner is unknown then.
    """
    unread: list[Unreachable] = []
    checkpoints = _newest_checkpoints(view, topics, unread, _CHECKPOINT_LOOK_BACK_MS)
    if unread:
        raise unread[0]
    names = input_topics(checkpoints)
    return input_lags(view, checkpoints, topics.offset_ranges(names) if names else {})


def read_checkpoints_end(view: JobView, topics: JobTopics) -> int:
    """Offset of the next checkpoint to be written; 0 while there is no topic. Raises `Unreachable`."""
    end = 0
    for span in topics.offset_ranges({checkpoint_topic(view.job_name, view.job_id)}).values():
        if isinstance(span, Unreachable):
            raise span
        end = max(end, span.end)
    return end


def read_progress(
    view: JobView, processor: ProcessorView, topics: JobTopics, *, since: int
) -> ProcessorProgress:
    """Return whether an active committed progress on its input at offset `since` or behind it.

    Raises `InvalidInput` for a standby: it processes nothing. `Unreachable`: whether it does
    isn't known, since not all commits could be read.
    """
    if processor.mode is TaskMode.STANDBY:
        raise InvalidInput(
            f"whether {processor.processor_id} processes",
            seen="a standby: it only applies the changelog",
            fix="lag() tells how far it is",
        )
    unread: list[Unreachable] = []
    begin = max(0, since - _COMMITS_BEFORE)
    records = list(
        _checkpoint_records(view, topics, unread, _CHECKPOINT_LOOK_BACK_MS, offset=begin)
    )
    commits = list(_parsed(records))
    tasks = tuple(task_progress(task, commits, since) for task in processor.tasks)
    if unread and not any(task.advanced for task in tasks):
        raise unread[0]
    return ProcessorProgress(
        processor_id=processor.processor_id,
        since=since,
        processing=any(task.advanced for task in tasks),
        tasks=tasks,
        end=max((since, *(record.offset + 1 for record in records))),
    )


def _newest_checkpoints(
    view: JobView, topics: JobTopics, unread: list[Unreachable], last_ms: int | None = None
) -> dict[str, Checkpoint]:
    """Return task → its newest checkpoint.

    The last record of a key counts, as for Samza. Older ones, which compaction hasn't removed yet, are
    many times as many and aren't parsed.
    """
    last = {r.key: r for r in _checkpoint_records(view, topics, unread, last_ms) if r.value}
    commits = sorted(_parsed(last.values()), key=lambda one: one.offset)
    return {one.task_name: one for one in commits}


def _checkpoint_records(
    view: JobView,
    topics: JobTopics,
    unread: list[Unreachable],
    last_ms: int | None,
    offset: int | None = None,
) -> Iterator[TopicRecord]:
    topic = checkpoint_topic(view.job_name, view.job_id)
    return _read(topics.tail(topic, last_ms, offset=offset), unread)


def _read(
    read: Iterable[TopicRecord | Unreachable], unread: list[Unreachable]
) -> Iterator[TopicRecord]:
    """The records; partitions that couldn't be read go to `unread`, and a topic that couldn't."""
    try:
        for one in read:
            if isinstance(one, Unreachable):
                unread.append(one)
            else:
                yield one
    except Unreachable as error:
        unread.append(error)


def _why(unread: Iterable[Unreachable]) -> str | None:
    return "; ".join(one.seen for one in unread) or None


def _parsed(records: Iterable[TopicRecord]) -> Iterator[Checkpoint]:
    """The checkpoints among them; what can't be read costs itself alone."""
    for record in records:
        with suppress(MalformedRecord):
            key = checkpoint_key(record.key)
            if key is not None and record.value:
                yield decode_checkpoint(key, record.value, record.timestamp_ms, record.offset)
