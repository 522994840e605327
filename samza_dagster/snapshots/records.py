"""What one record tells a snapshot: a few values out of kilobytes. Pure, but for `orjson`.

Samza's rules: in a coordinator stream the keys are `[1, type, key]`, the record with the highest offset
wins, a null value deletes (`CoordinatorStreamStore`). A task's checkpoint is the record written last,
of either version (`KafkaStateCheckpointMarker`, `KafkaChangelogSSPOffset`). A report is a metrics snapshot
of source `TaskName-Standby-…` (`TaskInstanceMetrics.addOffsetGauge`), as plain JSON or with the types of
Java's classes (`MetricsSnapshotSerdeV2`).

Anybody may write to these topics: a record that can't be read raises `Unreadable`, and costs no other record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.model.numbers import long_or_none

try:
    import orjson
except ImportError as error:
    raise MissingPrerequisite(
        "a snapshot of a fleet", seen=str(error), fix="pip install 'samza_dagster[spark]'"
    ) from error

CONFIG, HOST, CONTAINER, MODE, CHANGELOG = "config", "host", "container", "mode", "changelog"
DEPLOYMENT, GROUP, AGENT = "deployment", "group", "agent"
CHECKPOINT = "checkpoint"

_TYPES = {
    "set-config": (CONFIG, "value"),
    "set-container-host-assignment": (HOST, "host"),
    "set-task-container-assignment": (CONTAINER, "containerId"),
    "set-task-mode-assignment": (MODE, "taskMode"),
    "set-changelog": (CHANGELOG, "Partition"),
}
_NEEDED = {"job.name", "job.id", "app.run.id", "app.mode", "job.changelog.system", "job.default.system", "metrics.reporters", "task.commit.ms"}  # fmt: skip
_NEEDED_ENDS = (".changelog", ".factory", ".stream", ".interval")
_TASK, _STANDBY = "TaskName-", "TaskName-Standby-"
_HEADER = b'{"header":{'
_TASKS = "org.apache.samza.container.TaskInstanceMetrics"
_STORES = "org.apache.samza.storage.kv.KeyValueStoreMetrics"
_OFFSET, _SIDE = "-offset", "side-inputs-"
_WRITTEN = "-bytes-written"
_BACKEND = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"
HUGE_BYTES = 4 << 20
_DAY_MS = 86_400_000


class Unreadable(Exception):
    """A record that can't be read, and why."""


class Fact(NamedTuple):
    """What one record tells: of equal `kind`, `name` and `source` the record written last counts.

    `name` is what the fact is about: a setting, a processor, a task. `source` is the version of a
    checkpoint. `value` None: it was deleted. `at_ms` is the writer's own time, where the record has one.
    """

    kind: str
    name: str
    value: Any
    at_ms: int | None = None
    source: str = ""


class Report(NamedTuple):
    """What a standby's task says: changelog gauge → offset, and the gauges of its stores.

    `at_ms` is by its host's clock; `process` tells one incarnation from another.
    """

    job: tuple[str, str]
    task: str
    host: str
    at_ms: int
    process: str
    offsets: Mapping[str, int | None]
    stores: Mapping[str, Any]


def coordinator_fact(key: bytes | None, value: bytes | None) -> Fact | None:
    """Decode a record of a coordinator stream; None where a snapshot needs nothing of it."""
    parts: Any = _loaded(key)
    if not isinstance(parts, list) or len(cast("list[Any]", parts)) != 3:
        raise Unreadable("its key is no [version, type, key]")
    version, kind, name = cast("list[Any]", parts)
    if not (isinstance(kind, str) and isinstance(name, str)):
        raise Unreadable("its key is no [version, type, key]")
    if str(version) != "1":
        raise Unreadable(f"its key is of version {version!s:.20}, and 1 is known")
    known = _TYPES.get(kind)
    if known is None:
        return None
    if value is None:
        return Fact(known[0], name, None)
    message = _loaded(value)
    values: object = _field(message, "values")
    if not isinstance(values, dict):
        raise Unreadable("its value has no values")
    text = _field(cast("object", values), known[1])
    if text is not None and not isinstance(text, str):
        raise Unreadable(f"its {known[1]} is no text")
    if known[0] == CONFIG and not is_needed(name):
        return None
    return Fact(known[0], name, text, long_or_none(_field(message, "timestamp")))


def checkpoint_fact(key: bytes | None, value: bytes | None) -> Fact | None:
    """Decode a record of a checkpoint topic: changelog gauge → offset."""
    about = _loaded(key)
    kind, task = _field(about, "type"), _field(about, "taskName")
    if not isinstance(kind, str) or not isinstance(task, str):
        raise Unreadable("its key has no type and taskName")
    read = _CHECKPOINTS.get(kind)
    if read is None:
        return None
    # Of two versions the one written later counts, per changelog: each is a fact of its own.
    if value is None:
        return Fact(CHECKPOINT, task, None, source=kind)
    try:
        offsets = read(_loaded(value))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Unreadable(f"its value is no {kind}: {error!s:.80}") from None
    return Fact(CHECKPOINT, task, offsets, source=kind)


def report_of(value: bytes | None) -> Report | None:
    """Decode a record of a metrics topic: a standby task's report; None for any other source."""
    if value is None:
        raise Unreadable("it has no value")
    if len(value) > HUGE_BYTES:
        raise Unreadable(f"it has {len(value):,} bytes")
    header, snapshot = _header(value), None
    if header is None:
        snapshot = _plain(value)
        header = cast("dict[str, Any]", snapshot["header"])
    try:
        source, job_name = header["source"], header["job-name"]
        if not source.startswith(_STANDBY):
            return None
        at_ms = long_or_none(header["time"])
        if at_ms is None or not isinstance(job_name, str):
            raise ValueError("time or job-name")
        host = str(header["host"])
        metrics = (snapshot or orjson.loads(value))["metrics"]
        gauges = _gauges(metrics, _TASKS)
        return Report(
            (job_name, str(header["job-id"])),
            source[len(_TASK) :],
            host,
            at_ms,
            str(header.get("exec-env-container-id") or host),
            {name: long_or_none(gauges[name]) for name in _offset_names(tuple(gauges))},
            _gauges(metrics, _STORES),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Unreadable(f"it is no metrics snapshot: {error!s:.80}") from None


def refuse_future(came_ms: int, now_ms: int) -> None:
    """A record that claims to be of tomorrow or later hides every one that comes before."""
    if came_ms > now_ms + _DAY_MS:
        raise Unreadable(f"its time is {(came_ms - now_ms) // _DAY_MS} days ahead")


def is_needed(name: str) -> bool:
    """Whether a snapshot goes by this setting of a job."""
    return name in _NEEDED or (
        name.startswith(("stores.", "metrics.reporter.")) and name.endswith(_NEEDED_ENDS)
    )


def _loaded(text: bytes | None) -> object:
    try:
        return orjson.loads(text or b"")
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"it is no JSON: {error!s:.80}") from None


def _field(found: object, name: str) -> Any:
    return cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None


def _header(value: bytes) -> dict[str, Any] | None:
    """The header alone, where it comes first, as Samza writes it: that spares most of the parsing."""
    if not value.startswith(_HEADER):
        return None
    try:
        return orjson.loads(value[len(_HEADER) - 1 : value.index(b"}") + 1])
    except ValueError:
        return None


def _plain(value: bytes) -> dict[str, Any]:
    """A snapshot in another order, with spaces or with Java's types."""
    snapshot: Any = _loaded(value)
    if not isinstance(_field(snapshot, "header"), dict):
        snapshot = _untyped(snapshot)
        if not isinstance(_field(snapshot, "header"), dict):
            raise Unreadable("it is no metrics snapshot")
    return snapshot


def _gauges(metrics: Mapping[str, Any], group: str) -> dict[str, Any]:
    found = metrics.get(group, {})
    if not isinstance(found, dict):
        raise ValueError(f"{group} isn't an object")
    return cast("dict[str, Any]", found)


def _untyped(found: Any) -> Any:
    """JSON without the types that Jackson puts before each value: `["java.util.HashMap", {…}]`."""
    if isinstance(found, dict):
        return {name: _untyped(one) for name, one in cast("dict[str, Any]", found).items()}
    pair = cast("list[Any]", found) if isinstance(found, list) else []
    if len(pair) == 2 and isinstance(pair[0], str) and pair[0].startswith("java."):
        return _untyped(pair[1])
    return cast("Any", found)


@lru_cache(maxsize=50_000)
def _offset_names(gauges: tuple[str, ...]) -> tuple[str, ...]:
    """Those that tell an offset: a task has the same sixty gauges in each of its reports."""
    # Of a store that is its task's side input each offset is there twice.
    return tuple(n for n in gauges if n.endswith(_OFFSET) and not n.startswith(_SIDE))


def record_bytes(gauges: Mapping[str, Any]) -> dict[str, float]:
    """Store → the mean size of the records that it was given, by the gauges of a report's stores."""
    found: dict[str, float] = {}
    for store in _stores(tuple(gauges)):
        written, records = gauges[f"{store}{_WRITTEN}"], gauges.get(f"{store}-puts")
        if isinstance(written, int) and isinstance(records, int) and records > 0:
            found[store] = round(written / records, 1)
    return found


@lru_cache(maxsize=1_000)
def _stores(gauges: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removesuffix(_WRITTEN) for name in gauges if name.endswith(_WRITTEN))


def _of_v1(ssps: Any) -> dict[str, int]:
    """`<checkpoint id>:<offset>` of each changelog partition."""
    offsets = {
        _gauge(ssp): long_or_none(str(ssp["offset"]).rpartition(":")[2]) for ssp in ssps.values()
    }
    return {name: offset for name, offset in offsets.items() if offset is not None}


def _of_v2(checkpoint: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    markers: dict[str, str] = checkpoint["state-checkpoint-markers"].get(_BACKEND) or {}
    for marker in markers.values():
        fields = orjson.loads(marker)
        offset = long_or_none(fields["changelog-offset"])
        if offset is not None:
            found[_gauge(fields["changelog-ssp"])] = offset
    return found


def _gauge(ssp: Mapping[str, Any]) -> str:
    """Samza's name for it in the metrics."""
    return f"{ssp['system']}-{ssp['stream']}-{ssp['partition']}{_OFFSET}"


_CHECKPOINTS: Mapping[str, Callable[[Any], dict[str, int]]] = {
    "checkpoint": _of_v1,
    "checkpoint-v2": _of_v2,
}
