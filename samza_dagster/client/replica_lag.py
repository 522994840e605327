"""Lag of every replica of every store partition, from what the job itself reports. Pure.

The applied offset of a standby is its gauge `<system>-<changelog>-<partition>-offset` in
the metrics topic; `messages-behind-high-watermark` isn't used: it reads 0 for a dead
standby. An active that has been through its restore has all that it wrote. That it runs
doesn't tell it: a container checks in before its stores are restored.
"""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.client.checkpoints import Checkpoint
from samza_dagster.client.views import (
    LAST_SEEN_STATE,
    UNKNOWN_STATE,
    JobView,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import OffsetRange, Ranges, span_of
from samza_dagster.model import TaskMode
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.model.naming import active_task_of
from samza_dagster.readiness import records_behind


def is_own_report(processor: ProcessorView, sample: TaskSample) -> bool:
    """Whether a sample is of the incarnation that the view shows, not of a former one.

    By execution id where both are known, else by host. From Samza's AM alone that is all: two
    incarnations on one host can't be told apart, and of a host that nobody told all count.
    """
    if processor.execution_id and sample.execution_id:
        return processor.execution_id == sample.execution_id
    return processor.host == sample.host or processor.state == UNKNOWN_STATE


def replica_lags(
    view: JobView,
    *,
    stores: tuple[StoreChangelog, ...],
    changelog_partitions: Mapping[str, int],
    ranges: Ranges,
    samples: Mapping[str, TaskSample],
    checkpoints: Mapping[str, Checkpoint],
    unread_samples: str | None = None,
    unread_checkpoints: str | None = None,
) -> tuple[ReplicaLag, ...]:
    """One entry per task and store; partitions of a topic that isn't there are left out.

    `unread_samples` and `unread_checkpoints` say why some couldn't be read: a task without
    one may have written it there.
    """
    lags: list[ReplicaLag] = []
    for _, processor in sorted(view.processors.items()):
        for task in processor.tasks:
            partition = changelog_partitions.get(
                task, changelog_partitions.get(active_task_of(task), -1)
            )
            for store in stores:
                span = span_of(ranges, store.topic, partition)
                if span is not None:
                    lags.append(
                        _lag(
                            processor=processor,
                            task=task,
                            store=store,
                            partition=partition,
                            span=span,
                            sample=samples.get(task),
                            checkpoint=checkpoints.get(task),
                            unread_samples=unread_samples,
                            unread_checkpoints=unread_checkpoints,
                        )
                    )
    return tuple(lags)


def _lag(
    *,
    processor: ProcessorView,
    task: str,
    store: StoreChangelog,
    partition: int,
    span: OffsetRange | Unreachable,
    sample: TaskSample | None,
    checkpoint: Checkpoint | None,
    unread_samples: str | None,
    unread_checkpoints: str | None,
) -> ReplicaLag:
    applied: int | None = None
    observed: int | None = None
    basis = "none"
    reason = unread_samples if sample is None else None
    if processor.mode is TaskMode.STANDBY:
        gauge = f"{store.system}-{store.topic}-{partition}-offset"
        if sample is not None and gauge in sample.offsets:
            applied, observed, basis = sample.offsets[gauge], sample.at_ms, "metrics"
    elif processor.is_running or (sample is not None and processor.state == LAST_SEEN_STATE):
        observed = sample.at_ms if sample is not None else None
        if sample is not None and sample.processes:
            applied = span.end - 1 if isinstance(span, OffsetRange) else None
            basis = "running"
    elif checkpoint is None:
        reason = reason or unread_checkpoints
    elif store.store in checkpoint.changelog_offsets:
        applied, basis = checkpoint.changelog_offsets[store.store], "checkpoint"
        observed = checkpoint.at_ms
    end, lag = None, None
    if isinstance(span, Unreachable):
        reason = span.seen
    else:
        # What the changelog no longer holds isn't to be read: a replica before it begins with it.
        place = applied if applied is None else max(applied, span.start - 1)
        end, lag = span.end, records_behind(span.start, span.end, place)
    return ReplicaLag(
        processor_id=processor.processor_id,
        task_name=task,
        mode=processor.mode,
        store=store.store,
        changelog=store.topic,
        partition=partition,
        host=processor.host or (sample.host if sample is not None else None),
        end_offset=end,
        applied_offset=applied,
        lag=lag,
        observed_at_ms=observed,
        basis=basis,
        execution_id=sample.execution_id if sample is not None else "",
        reason=reason,
    )
