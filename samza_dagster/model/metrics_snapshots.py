"""Reports of a job's metrics reporters: their topics, and each task's content.

A report is JSON, plain or with the types of Java's classes (`MetricsSnapshotSerdeV2`).
Source: Samza's `MetricsSnapshotReporter`, `MetricsHeader`, `TaskInstanceMetrics` (1.8.0).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

import orjson

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.numbers import long_or_none

TASK, STANDBY_TASK = "TaskName-", "TaskName-Standby-"
"""How the sources of tasks' reports begin."""
_HEADER = b'{"header":{'
# A container's own snapshot is twice as long as its task's, and as often there.
_OF_A_TASK = f'"{TASK}'.encode()
_TASKS = "org.apache.samza.container.TaskInstanceMetrics"
_STORES = "org.apache.samza.storage.kv.KeyValueStoreMetrics"
_OFFSET, _SIDE_INPUT, _WRITTEN = "-offset", "side-inputs-", "-bytes-written"
_DEFAULT_INTERVAL_S = 60
# Reporters run before stores are restored; these counters begin at 0 with each process and grow
# only in its run loop, which comes after.
_RUN_LOOP_COUNTERS = ("process-calls", "commit-calls", "window-calls")
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class TaskSample(NamedTuple):
    """A task's newest report: its host, when, and its offset gauges by name.

    An offset is None while nothing was applied yet. `at_ms` is the clock of that host, `started_ms`
    when this incarnation began by the same clock (0 where the report doesn't say). `execution_id`
    is the incarnation's, empty in a report of an older Samza. `came_ms` is the time of its record,
    by the clock of the topic's setting. `processes`: its run loop has processed or committed, so
    its stores are restored; always False for a standby's task. `stores` are the gauges of its
    stores.
    """

    task_name: str
    host: str
    at_ms: int
    offsets: Mapping[str, int | None]
    execution_id: str = ""
    processes: bool = False
    started_ms: int = 0
    came_ms: int = 0
    job: tuple[str, str] = ("", "")
    stores: Mapping[str, Any] = {}

    @property
    def record_bytes(self) -> dict[str, float]:
        """Return store → the mean size of the records that it was given."""
        found: dict[str, float] = {}
        for store in _stores(tuple(self.stores)):
            written, records = self.stores[f"{store}{_WRITTEN}"], self.stores.get(f"{store}-puts")
            if isinstance(written, int) and isinstance(records, int) and records > 0:
                found[store] = round(written / records, 1)
        return found

    def is_of_a_former(self, other: TaskSample) -> bool:
        """Return whether it is of an incarnation that began before that of the other, on the same host."""
        known = self.execution_id and other.execution_id and self.host == other.host
        return (
            bool(known)
            and self.execution_id != other.execution_id
            and 0 < self.started_ms < other.started_ms
        )


def metrics_topics(config: Mapping[str, str]) -> dict[str, int]:
    """Return topic → interval in seconds of every reporter in `metrics.reporters` with a stream."""
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
    """Return task → its newest sample, from metrics snapshots of any jobs; others are skipped.

    The newest is the last in the order given, which is that of the topic: hosts' clocks differ,
    and each may be set back. A sample that `counts` rejects hides no other one.
    Anybody may write there: an unreadable record goes to `on_unreadable` and hides no other one.
    """
    newest: dict[str, TaskSample] = {}
    for raw in snapshots:
        if not raw or _OF_A_TASK not in raw:
            continue
        try:
            sample = decode_report(raw, jobs=[(job_name, job_id)])
        except MalformedRecord:
            on_unreadable(raw)
            continue
        if sample is not None and counts(sample):
            newest[sample.task_name] = sample
    return newest


def decode_report(
    raw: bytes, *, jobs: Collection[tuple[str, str]] | None = None, source: str = TASK
) -> TaskSample | None:
    """Decode a metrics snapshot with a source that begins like `source`; None for any other.

    Only the header of a skipped one is parsed, if it comes first, as Samza writes it.
    Raises `MalformedRecord`, which says what is wrong with it.
    """
    try:
        header, document = _header(raw)
        if jobs is not None and (header["job-name"], str(header["job-id"])) not in jobs:
            return None
        its_source: str = header["source"]
        if not its_source.startswith(source):
            return None
        at_ms, job_name = long_or_none(header["time"]), header["job-name"]
        if at_ms is None or not isinstance(job_name, str):
            raise ValueError("time or job-name")
        metrics = (document or orjson.loads(raw))["metrics"]
        gauges = _group(metrics, _TASKS)
        return TaskSample(
            task_name=its_source.removeprefix(TASK),
            host=str(header["host"]),
            at_ms=at_ms,
            offsets={name: long_or_none(gauges[name]) for name in _offset_names(tuple(gauges))},
            execution_id=str(header.get("exec-env-container-id") or ""),
            processes=not its_source.startswith(STANDBY_TASK)
            and any(_number(gauges.get(name)) > 0 for name in _RUN_LOOP_COUNTERS),
            started_ms=long_or_none(header.get("reset-time")) or 0,
            job=(job_name, str(header["job-id"])),
            stores=_group(metrics, _STORES),
        )
    except _UNREADABLE as error:
        raise MalformedRecord(
            "read a report", seen=f"it is no metrics snapshot: {error!s:.80}"
        ) from None


def host_time(raw: bytes | None, job: tuple[str, str]) -> tuple[str, int] | None:
    """Return the host that wrote a snapshot of this job and its clock then.

    None for another job's.
    """
    try:
        header = _header(raw)[0] if raw else None
        if header is None or not _is_of(header, job):
            return None
        at_ms = long_or_none(header["time"])
        return None if at_ms is None else (str(header["host"]), at_ms)
    except _UNREADABLE:
        return None


def _header(raw: bytes) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a snapshot's header; and all of it, where the header needs the rest to be parsed."""
    if raw.startswith(_HEADER):
        try:
            return orjson.loads(raw[len(_HEADER) - 1 : raw.index(b"}") + 1]), None
        except ValueError:
            pass
    document: Any = orjson.loads(raw)
    header = _header_in(document)
    if header is None:
        document = _untyped(document)
        header = _header_in(document)
    if header is None:
        raise TypeError("no header")
    return header, document


def _header_in(document: object) -> dict[str, Any] | None:
    found = cast("dict[str, Any]", document).get("header") if isinstance(document, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _untyped(found: Any) -> Any:
    """Return JSON without Jackson's type before each value: `["java.util.HashMap", {…}]`."""
    if isinstance(found, dict):
        return {name: _untyped(one) for name, one in cast("dict[str, Any]", found).items()}
    pair = cast("list[Any]", found) if isinstance(found, list) else []
    if len(pair) == 2 and isinstance(pair[0], str) and pair[0].startswith("java."):
        return _untyped(pair[1])
    return cast("Any", found)


def _is_of(header: Mapping[str, Any], job: tuple[str, str]) -> bool:
    return (header["job-name"], str(header["job-id"])) == job


def _group(metrics: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = metrics.get(name, {})
    if not isinstance(found, dict):
        raise TypeError(f"{name} isn't an object")
    return cast("dict[str, Any]", found)


@lru_cache(maxsize=50_000)
def _offset_names(gauges: tuple[str, ...]) -> tuple[str, ...]:
    """Return the gauges of offsets: a task has the same sixty gauges in each of its reports."""
    # A store that is its task's side input has each offset twice.
    return tuple(n for n in gauges if n.endswith(_OFFSET) and not n.startswith(_SIDE_INPUT))


@lru_cache(maxsize=1_000)
def _stores(gauges: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removesuffix(_WRITTEN) for name in gauges if name.endswith(_WRITTEN))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
