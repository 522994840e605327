"""The record of a plan that a run keeps in its event log, for the re-executions of its chain.

Whole in any case, as they carry it out: one that is long is kept packed.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import dagster as dg

from samza_dagster.orchestration.versioned import adapter

PLAN_RECORD = "plan_record"
MOST_PLAIN = 30_000
"""Bytes; ten thousand containers take 2 MB plain, 40 kB packed."""
_PACKED = "xz+base64 of JSON"
T = TypeVar("T")


def kept(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as metadata of an event has it."""
    text = json.dumps(record, separators=(",", ":")).encode()
    if len(text) <= MOST_PLAIN:
        return dict(record)
    return {_PACKED: base64.b64encode(lzma.compress(text)).decode()}


def unpacked(value: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it was before `kept`."""
    if _PACKED not in value:
        return dict(value)
    return json.loads(lzma.decompress(base64.b64decode(value[_PACKED])))


def read_back(kept: type[T], record: object) -> T:
    """A plan, or a part of one, of what `dataclasses.asdict` has made of it."""
    return adapter(kept).validate_python(record)


def plan_records(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dict[str, Any]]:
    """What a run has kept of its plan: what was `asked`, and the `plan`."""
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
        output = entry.dagster_event.step_output_data if entry.dagster_event else None
        value = output.metadata.get(PLAN_RECORD) if output else None
        if value is not None:
            yield unpacked(cast("dict[str, Any]", value.value))


def former_plan(
    instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun], asked: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The plan that the first of these runs has kept for the same ask."""
    wanted = json.loads(json.dumps(asked))  # as a record has it
    for run in runs:
        for record in plan_records(instance, run):
            if record["asked"] == wanted:
                return cast("dict[str, Any]", record["plan"])
    return None
