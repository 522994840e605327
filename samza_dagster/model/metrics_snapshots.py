"""What a job's metrics reporters write: which topics, and the offsets that tasks report.

Source: Samza's `MetricsSnapshotReporter`, `MetricsHeader` (1.8.0).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from samza_dagster.model.numbers import long_or_none

_GROUP_SUFFIX = "TaskInstanceMetrics"
_SOURCE_PREFIX = "TaskName-"
# A container's own snapshot is twice as long as its task's, and as often there.
_OF_A_TASK = f'"{_SOURCE_PREFIX}'.encode()
_DEFAULT_INTERVAL_S = 60
# Reporters run before stores are restored; these counters begin at 0 with each process and grow
# only in its run loop, which comes after.
_RUN_LOOP_COUNTERS = ("process-calls", "commit-calls", "window-calls")
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class TaskSample:
    """What one task last reported: its host, when, and its offset gauges by name.

    `at_ms` is the clock of that host, `started_ms` when this incarnation began by the same clock
    (0 where the snapshot doesn't say). `execution_id` is the incarnation's, empty in a
    snapshot of an older Samza. `came_ms` is the time of the record that brought it, by whose clock
    the topic's setting says. `processes`: its run loop has processed or committed, so its
    stores are restored; always False of a standby's task. `unset` are the offset gauges
    that it reports without an offset: nothing was applied yet.
    """

    task_name: str
    host: str
    at_ms: int
    offsets: Mapping[str, int]
    execution_id: str = ""
    processes: bool = False
    unset: frozenset[str] = frozenset()
    started_ms: int = 0
    came_ms: int = 0

    def is_of_a_former(self, other: TaskSample) -> bool:
        """Whether it is of an incarnation that began before that of the other, on the same host."""
        known = self.execution_id and other.execution_id and self.host == other.host
        return (
            bool(known)
            and self.execution_id != other.execution_id
            and 0 < self.started_ms < other.started_ms
        )


def metrics_topics(config: Mapping[str, str]) -> dict[str, int]:
    """Topic → interval in seconds, of every reporter in `metrics.reporters` with a stream."""
    topics: dict[str, int] = {}
    for reporter in (name.strip() for name in config.get("metrics.reporters", "").split(",")):
        stream = config.get(f"metrics.reporter.{reporter}.stream", "")
        if not stream:
            continue
        seconds = long_or_none(config.get(f"metrics.reporter.{reporter}.interval", ""))
        topics[stream.partition(".")[2] or stream] = max(
            _DEFAULT_INTERVAL_S if seconds is None else seconds, 1
        )
    return topics


def task_samples(
    snapshots: Iterable[bytes | None],
    job_name: str,
    job_id: str,
    *,
    counts: Callable[[TaskSample], bool] = lambda _: True,
    on_unreadable: Callable[[bytes], None] = lambda _: None,
) -> dict[str, TaskSample]:
    """Task → its newest sample, out of metrics snapshots of any jobs; others are skipped.

    The newest is the last in the order given, which is that of the topic: hosts' clocks differ,
    and each may be set back. Those that `counts` says no to hide no other one.
    Anybody may write there: what can't be read goes to `on_unreadable`, and costs no other one.
    """
    newest: dict[str, TaskSample] = {}
    for raw in snapshots:
        try:
            sample = _sample(raw, job_name, job_id) if raw and _OF_A_TASK in raw else None
        except _UNREADABLE:
            on_unreadable(raw or b"")
            continue
        if sample is not None and counts(sample):
            newest[sample.task_name] = sample
    return newest


def report_of(raw: bytes | None, job_name: str, job_id: str) -> tuple[str, int] | None:
    """Who wrote a snapshot of this job, and when by that host's clock; None: it is none."""
    try:
        header = json.loads(raw)["header"] if raw else None
        if header is None or (header["job-name"], str(header["job-id"])) != (job_name, job_id):
            return None
        at_ms = long_or_none(header["time"])
        return None if at_ms is None else (str(header["host"]), at_ms)
    except _UNREADABLE:
        return None


def _sample(raw: bytes, job_name: str, job_id: str) -> TaskSample | None:
    """The sample of a snapshot; None of another job or no task. Raises one of `_UNREADABLE`."""
    document = json.loads(raw)
    header, groups = document["header"], document["metrics"]
    if header["job-name"] != job_name or str(header["job-id"]) != job_id:
        return None
    source = str(header["source"])
    if not source.startswith(_SOURCE_PREFIX):
        return None
    at_ms = long_or_none(header["time"])
    if at_ms is None:
        raise ValueError("time")
    gauges: dict[str, Any] = {}
    for name, group in groups.items():
        if str(name).endswith(_GROUP_SUFFIX):
            gauges.update(cast("dict[str, Any]", group))
    of_tasks = {name: value for name, value in gauges.items() if name.endswith("-offset")}
    offsets = {name: long_or_none(value) for name, value in of_tasks.items()}
    return TaskSample(
        task_name=source.removeprefix(_SOURCE_PREFIX),
        host=str(header["host"]),
        at_ms=at_ms,
        offsets={name: offset for name, offset in offsets.items() if offset is not None},
        execution_id=str(header.get("exec-env-container-id") or ""),
        unset=frozenset(name for name, value in of_tasks.items() if value is None),
        processes=any(_number(gauges.get(name)) > 0 for name in _RUN_LOOP_COUNTERS),
        started_ms=long_or_none(header.get("reset-time")) or 0,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
