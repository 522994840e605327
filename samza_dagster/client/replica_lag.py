"""Lag of every replica of every store partition, from what the job itself reports. Pure.

The applied offset of a standby is its gauge `<system>-<changelog>-<partition>-offset` in
the metrics topic. An active that has been through its restore has all that it wrote. That it runs
doesn't tell it: a container checks in before its stores are restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from samza_dagster.client.views import (
    BEYOND_END,
    LAST_SEEN_STATE,
    NO_CHANGELOG,
    NO_LEADER,
    NO_OBSERVATION,
    UNKNOWN_STATE,
    UNREAD_OBSERVATIONS,
    InputLag,
    JobView,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.errors import Unreachable, some_of
from samza_dagster.lag import Came, FirstSince, behind, records_behind, times_to_ask
from samza_dagster.metadata.job_topics import OffsetRange, Ranges, span_of, why_no_span
from samza_dagster.model import TaskMode
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.checkpoints import Checkpoint
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.model.naming import active_task_of
from samza_dagster.model.numbers import long_or_none

LOST_FIX = (
    "bring its records back; until then move and restart nothing that has this store: it starts with what"
    " the changelog has"
)
"""What is to be done about `lost_changelogs`."""


def is_own_report(processor: ProcessorView, sample: TaskSample) -> bool:
    """Return whether a sample is of the incarnation that the view shows, not of an earlier one.

    Compares execution ids if both are known, else hosts. Samza's AM gives no ids, and if the host is
    unknown, all samples count. `TaskSample.is_of_a_former` tells two incarnations on one host apart.
    """
    if processor.execution_id and sample.execution_id:
        return processor.execution_id == sample.execution_id
    return processor.host == sample.host or processor.state == UNKNOWN_STATE


@dataclass(frozen=True, slots=True)
class StoreReplica:
    """A task's replica of one store partition, and where the changelog begins and ends now.

    `span` is the reason, for a person, where there is no such topic or partition.
    """

    processor: ProcessorView
    task: str
    store: StoreChangelog
    partition: int
    span: OffsetRange | Unreachable | str

    @property
    def mode(self) -> TaskMode:
        """The task's own: a whole processor of a standalone group has both."""
        is_standby = active_task_of(self.task) != self.task
        return TaskMode.STANDBY if is_standby else self.processor.mode

    @property
    def gauge(self) -> str:
        """The gauge by which the replica reports its changelog's partition."""
        return self.store.offset_gauge(self.partition)

    def applied(self, sample: TaskSample | None) -> int | None:
        """The offset that a standby reports as applied."""
        if sample is None or self.mode is not TaskMode.STANDBY:
            return None
        return sample.offsets.get(self.gauge)

    def came(self, sample: TaskSample) -> Came:
        """When a report of it came."""
        return self.store.topic, self.partition, sample.came_ms


def store_replicas(
    view: JobView,
    stores: Sequence[StoreChangelog],
    changelog_partitions: Mapping[str, int],
    ranges: Ranges,
) -> tuple[StoreReplica, ...]:
    """Return a replica for each task with a changelog partition, and store; also of missing topics or partitions."""
    found: list[StoreReplica] = []
    for _, processor in sorted(view.processors.items()):
        for task in processor.tasks:
            partition = changelog_partitions.get(
                task, changelog_partitions.get(active_task_of(task))
            )
            if partition is None:
                continue
            for store in stores:
                at = store.topic, partition
                span = span_of(ranges, *at) or why_no_span(ranges, *at)
                found.append(StoreReplica(processor, task, store, partition, span))
    return tuple(found)


def asked_times(
    replicas: Iterable[StoreReplica], samples: Mapping[str, TaskSample], patience_ms: int
) -> set[Came]:
    """All that has to be asked for `replica_lags`."""
    return {
        asked
        for one in replicas
        if (sample := samples.get(one.task)) is not None
        and (applied := one.applied(sample)) is not None
        and isinstance(one.span, OffsetRange)
        for asked in times_to_ask(one.came(sample), applied, one.span.end, patience_ms)
    }


def replica_lags(
    replicas: Iterable[StoreReplica],
    *,
    samples: Mapping[str, TaskSample],
    checkpoints: Mapping[str, Checkpoint],
    patience_ms: int,
    first_since: FirstSince,
    unread_samples: str | None = None,
    unread_checkpoints: str | None = None,
) -> tuple[ReplicaLag, ...]:
    """The lag of each.

    `first_since` answers `asked_times`. `unread_samples` and `unread_checkpoints` say why some
    couldn't be read: a task without one may have written it there.
    """
    return tuple(
        _lag(
            one,
            samples.get(one.task),
            checkpoints.get(one.task),
            patience_ms,
            first_since,
            unread_samples,
            unread_checkpoints,
        )
        for one in replicas
    )


def _lag(
    one: StoreReplica,
    sample: TaskSample | None,
    checkpoint: Checkpoint | None,
    patience_ms: int,
    first_since: FirstSince,
    unread_samples: str | None,
    unread_checkpoints: str | None,
) -> ReplicaLag:
    processor, span = one.processor, one.span
    applied: int | None = None
    observed: int | None = None
    basis = "none"
    reason = unread_samples if sample is None else None
    if one.mode is TaskMode.STANDBY:
        applied = one.applied(sample)
        if sample is not None and applied is not None:
            observed, basis = sample.at_ms, "metrics"
    elif processor.is_running or (sample is not None and processor.state == LAST_SEEN_STATE):
        observed = sample.at_ms if sample is not None else None
        if sample is not None and sample.processes:
            applied = span.end - 1 if isinstance(span, OffsetRange) else None
            basis = "running"
    elif checkpoint is None:
        reason = reason or unread_checkpoints
    elif (committed := checkpoint.changelog_offsets.get(one.gauge)) is not None:
        applied, basis, observed = committed, "checkpoint", checkpoint.at_ms
    end, lag, since = None, None, 0
    if isinstance(span, str):
        because, reason = NO_CHANGELOG, span
    elif isinstance(span, Unreachable):
        because, reason = NO_LEADER, span.seen
    else:
        came = one.came(sample) if basis == "metrics" and sample is not None else None
        end, lag, since = behind(
            *(span.start, span.end, applied, came),
            patience_ms=patience_ms,
            first_since=first_since,
        )
        because = ""
        if lag is None and applied is not None:
            because = BEYOND_END
            reason = (
                f"topic {one.store.topic} was made anew or cut: its partition {one.partition} ends at"
                f" {span.end}, and offset {applied} was applied"
            )
        elif lag is None:
            because = UNREAD_OBSERVATIONS if reason else NO_OBSERVATION
    return ReplicaLag(
        processor_id=processor.processor_id,
        task_name=one.task,
        mode=one.mode,
        store=one.store.store,
        changelog=one.store.topic,
        partition=one.partition,
        host=processor.host or (sample.host if sample is not None else None),
        end_offset=end,
        applied_offset=applied,
        lag=lag,
        observed_at_ms=observed,
        basis=basis,
        execution_id=sample.execution_id if sample is not None else "",
        reason=reason,
        unknown_because=because,
        written_since=since,
        came_ms=sample.came_ms if sample is not None else None,
    )


def lost_changelogs(replicas: Iterable[ReplicaLag]) -> dict[str, str]:
    """Return each missing or incomplete changelog with the reason and the replicas whose state is only on disk."""
    lost: dict[str, dict[str, None]] = {}
    for one in replicas:
        if one.is_changelog_lost:
            lost.setdefault(one.changelog, {})[f"store {one.store}: {one.reason}"] = None
    return {topic: some_of(list(reasons), "; ") for topic, reasons in sorted(lost.items())}


def input_partition(name: str) -> tuple[str, int] | None:
    """Topic and partition of a checkpoint's `<system>.<stream>.<partition>`."""
    _, _, rest = name.partition(".")
    topic, _, partition = rest.rpartition(".")
    number = long_or_none(partition)
    return (topic, number) if topic and number is not None else None


def input_topics(checkpoints: Mapping[str, Checkpoint]) -> set[str]:
    """The topics that the checkpoints name."""
    names = {name for checkpoint in checkpoints.values() for name in checkpoint.input_offsets}
    return {at[0] for name in names if (at := input_partition(name)) is not None}


def input_lags(
    view: JobView,
    checkpoints: Mapping[str, Checkpoint],
    ranges: Ranges,
) -> tuple[InputLag, ...]:
    """Return an entry for each active task and input partition that it has committed."""
    found: list[InputLag] = []
    for _, processor in sorted(view.processors.items()):
        if processor.mode is not TaskMode.ACTIVE:
            continue
        for task in processor.tasks:
            checkpoint = checkpoints.get(task)
            for name, offset in checkpoint.input_offsets.items() if checkpoint else ():
                at = input_partition(name)
                span = span_of(ranges, *at) if at is not None else None
                if checkpoint is None or at is None or span is None:
                    continue
                unread = isinstance(span, Unreachable)
                found.append(
                    InputLag(
                        processor_id=processor.processor_id,
                        task_name=task,
                        topic=at[0],
                        partition=at[1],
                        committed_offset=offset,
                        end_offset=None if unread else span.end,
                        lag=None if unread else records_behind(span.start, span.end, offset),
                        at_ms=checkpoint.at_ms,
                        reason=span.seen if unread else None,
                    )
                )
    return tuple(found)
