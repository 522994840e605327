"""Lag of every replica of every store partition, from what the job itself reports. Pure.

Lag of a standby = end offset - 1 - last applied offset. The applied offset is the
standby's gauge `<system>-<changelog>-<partition>-offset` in the metrics topic;
`messages-behind-high-watermark` isn't used: it reads 0 for a dead standby.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from samza_dagster.client.checkpoints import Checkpoint
from samza_dagster.client.views import JobView, ProcessorView, ReplicaLag
from samza_dagster.model import TaskMode
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.naming import active_task_of

_GROUP_SUFFIX = "TaskInstanceMetrics"
_SOURCE_PREFIX = "TaskName-"
_DEFAULT_INTERVAL_S = 60


@dataclass(frozen=True)
class TaskSample:
    """What one task last reported: its host, when, and its offset gauges by name."""

    task_name: str
    host: str
    at_ms: int
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class OffsetRange:
    """First and next offset of a partition."""

    start: int
    end: int


def metrics_topics(config: Mapping[str, str]) -> dict[str, int]:
    """Topic → interval in seconds, of every reporter in `metrics.reporters` with a stream."""
    topics: dict[str, int] = {}
    for reporter in (name.strip() for name in config.get("metrics.reporters", "").split(",")):
        stream = config.get(f"metrics.reporter.{reporter}.stream", "")
        if not stream:
            continue
        interval = config.get(f"metrics.reporter.{reporter}.interval", "")
        seconds = (
            int(interval) if interval.isascii() and interval.isdigit() else _DEFAULT_INTERVAL_S
        )
        topics[stream.partition(".")[2] or stream] = max(seconds, 1)
    return topics


def task_samples(
    snapshots: Iterable[bytes | None], job_name: str, job_id: str
) -> dict[str, TaskSample]:
    """Task → its newest sample, out of metrics snapshots of any jobs; others are skipped."""
    newest: dict[str, TaskSample] = {}
    for raw in snapshots:
        sample = _sample(raw, job_name, job_id) if raw else None
        if sample is None:
            continue
        known = newest.get(sample.task_name)
        if known is None or known.at_ms <= sample.at_ms:
            newest[sample.task_name] = sample
    return newest


def _sample(raw: bytes, job_name: str, job_id: str) -> TaskSample | None:
    try:
        document = json.loads(raw)
        header, groups = document["header"], document["metrics"]
        if header["job-name"] != job_name or str(header["job-id"]) != job_id:
            return None
        source = str(header["source"])
        if not source.startswith(_SOURCE_PREFIX):
            return None
        gauges: dict[str, Any] = {}
        for name, group in groups.items():
            if str(name).endswith(_GROUP_SUFFIX):
                gauges.update(cast("dict[str, Any]", group))
        return TaskSample(
            task_name=source.removeprefix(_SOURCE_PREFIX),
            host=str(header["host"]),
            at_ms=int(header["time"]),
            offsets={
                name: int(value)
                for name, value in gauges.items()
                if name.endswith("-offset") and str(value).isdigit()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def replica_lags(
    view: JobView,
    *,
    stores: tuple[StoreChangelog, ...],
    changelog_partitions: Mapping[str, int],
    ranges: Mapping[tuple[str, int], OffsetRange],
    samples: Mapping[str, TaskSample],
    checkpoints: Mapping[str, Checkpoint],
) -> tuple[ReplicaLag, ...]:
    """One entry per task and store; partitions without a known range are left out."""
    lags: list[ReplicaLag] = []
    for _, processor in sorted(view.processors.items()):
        for task in processor.tasks:
            partition = changelog_partitions.get(
                task, changelog_partitions.get(active_task_of(task), -1)
            )
            for store in stores:
                span = ranges.get((store.topic, partition))
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
                        )
                    )
    return tuple(lags)


def _lag(
    *,
    processor: ProcessorView,
    task: str,
    store: StoreChangelog,
    partition: int,
    span: OffsetRange,
    sample: TaskSample | None,
    checkpoint: Checkpoint | None,
) -> ReplicaLag:
    applied: int | None = None
    observed: int | None = None
    basis = "none"
    if processor.mode is TaskMode.STANDBY:
        gauge = f"{store.system}-{store.topic}-{partition}-offset"
        if sample is not None and gauge in sample.offsets:
            applied, observed, basis = sample.offsets[gauge], sample.at_ms, "metrics"
    elif processor.is_running or (sample is not None and processor.state == "last-seen"):
        applied, basis = span.end - 1, "running"
        observed = sample.at_ms if sample is not None else None
    elif checkpoint is not None and store.store in checkpoint.changelog_offsets:
        applied, basis = checkpoint.changelog_offsets[store.store], "checkpoint"
        observed = checkpoint.at_ms
    lag = None if applied is None else max(0, span.end - max(applied + 1, span.start))
    if span.start == span.end:
        lag = 0
    return ReplicaLag(
        processor_id=processor.processor_id,
        task_name=task,
        mode=processor.mode,
        store=store.store,
        changelog=store.topic,
        partition=partition,
        host=processor.host or (sample.host if sample is not None else None),
        end_offset=span.end,
        applied_offset=applied,
        lag=lag,
        observed_at_ms=observed,
        basis=basis,
    )
