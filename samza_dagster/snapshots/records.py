"""Which facts a snapshot needs of the streams' records. Pure.

Of a job's facts the one written last counts, as for Samza, and a null value deletes
(`CoordinatorStreamStore`). Anybody may write to these topics: a record that can't be read raises
`MalformedRecord`, and costs no other record.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model.checkpoints import checkpoint_key, decode_checkpoint
from samza_dagster.model.metrics_snapshots import STANDBY_TASK, TaskSample, decode_report
from samza_dagster.model.numbers import long_or_none

CONFIG, HOST, CONTAINER, MODE, CHANGELOG = "config", "host", "container", "mode", "changelog"
DEPLOYMENT, GROUP, AGENT = "deployment", "group", "agent"
CHECKPOINT = "checkpoint"

_TYPES = {
    stream.SET_CONFIG: (CONFIG, "value"),
    stream.SET_CONTAINER_HOST: (HOST, "host"),
    stream.SET_TASK_CONTAINER: (CONTAINER, "containerId"),
    stream.SET_TASK_MODE: (MODE, "taskMode"),
    stream.SET_CHANGELOG: (CHANGELOG, "Partition"),
}
_NEEDED = {"job.name", "job.id", "app.run.id", "app.mode", "job.changelog.system", "job.default.system", "metrics.reporters", "task.commit.ms"}  # fmt: skip
_NEEDED_ENDS = (".changelog", ".factory", ".stream", ".interval")
HUGE_BYTES = 4 << 20
_DAY_MS = 86_400_000


class Fact(NamedTuple):
    """What one record tells: of equal `kind`, `name` and `source` the record written last counts.

    `name` is what the fact is about: a setting, a processor, a task. `source` is the version of a
    checkpoint: of two versions the one written later counts, per changelog. `value` None: it was
    deleted. `at_ms` is the writer's own time, where the record has one.
    """

    kind: str
    name: str
    value: Any
    at_ms: int | None = None
    source: str = ""


def coordinator_fact(key: bytes | None, value: bytes | None) -> Fact | None:
    """Decode a record of a coordinator stream; None where a snapshot needs nothing of it."""
    namespace, name = stream.decode_key(key)
    kind, field = _TYPES.get(namespace, ("", ""))
    if not kind or value is None:
        return Fact(kind, name, None) if kind else None
    fields = stream.decode_fields(value)
    if kind == CONFIG and not is_needed(name):
        return None
    return Fact(kind, name, fields["values"].get(field), long_or_none(fields.get("timestamp")))


def checkpoint_fact(key: bytes | None, value: bytes | None) -> Fact | None:
    """Decode a record of a checkpoint topic: changelog gauge → offset."""
    about = checkpoint_key(key)
    if about is None:
        return None
    offsets = None if value is None else decode_checkpoint(about, value).changelog_offsets
    return Fact(CHECKPOINT, about.task_name, offsets, source=about.version)


def standby_report(
    value: bytes | None, jobs: Collection[tuple[str, str]] | None = None
) -> TaskSample | None:
    """Decode a record of a metrics topic: the report of a standby's task of these jobs, of any where none is named."""
    if value is None or len(value) > HUGE_BYTES:
        seen = "it has no value" if value is None else f"it has {len(value):,} bytes"
        raise MalformedRecord("read a report", seen=seen)
    return decode_report(value, jobs=jobs, source=STANDBY_TASK)


def refuse_future(came_ms: int, now_ms: int) -> None:
    """A record that claims to be of tomorrow or later hides every one that comes before."""
    if came_ms > now_ms + _DAY_MS:
        seen = f"its time is {(came_ms - now_ms) // _DAY_MS} days ahead"
        raise MalformedRecord("read a report", seen=seen)


def is_needed(name: str) -> bool:
    """Whether a snapshot goes by this setting of a job."""
    return name in _NEEDED or (
        name.startswith(("stores.", "metrics.reporter.")) and name.endswith(_NEEDED_ENDS)
    )
