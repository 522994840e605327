"""A chain of re-executed runs: which they are, and the plan that they carry out.

Its record is kept in the event log of the run that made it, whole in any case: one that is long is
packed.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import dagster as dg

from samza_dagster.orchestration.versioned import adapter

ROOT = "dagster/root_run_id"
"""Dagster's tag of a re-execution: the first run of its chain."""
PLAN_RECORD = "plan_record"
MOST_PLAIN = 30_000
"""Bytes; ten thousand containers take 2 MB plain, 40 kB packed."""
_PACKED = "xz+base64 of JSON"
MEMORY = "samza/chain"
"""Run tag: what the runs of a chain remember beside their plan and their requests, as JSON."""
T = TypeVar("T")


def root_run_id(context: dg.OpExecutionContext) -> str:
    """Returns the first run of the chain of re-executions that this one belongs to.

    The requests' uuids derive from it.
    """
    return context.run.root_run_id or context.run.run_id


def chain_of(instance: dg.DagsterInstance, root: str) -> list[dg.DagsterRun]:
    """Returns all runs of a chain of re-executions, the oldest first."""
    first = instance.get_run_by_id(root)
    later = instance.get_runs(dg.RunsFilter(tags={ROOT: root}), ascending=True)
    return [*([first] if first is not None else []), *later]


def others_of_chain(context: dg.OpExecutionContext) -> list[dg.DagsterRun]:
    """Returns the other runs of this run's chain, the oldest first."""
    runs = chain_of(context.instance, root_run_id(context))
    return [run for run in runs if run.run_id != context.run.run_id]


def remembered(runs: Iterable[dg.DagsterRun], part: str) -> list[Any]:
    """Return what these runs remember under this name, in their order."""
    return [memory[part] for memory in map(_memory, runs) if part in memory]


def remember(instance: dg.DagsterInstance, run_id: str, part: str, value: object) -> None:
    """Keep a value in the run's tag, beside what that has under other names."""
    run = instance.get_run_by_id(run_id)
    memory = {**(_memory(run) if run is not None else {}), part: value}
    instance.add_run_tags(run_id, {MEMORY: json.dumps(memory, separators=(",", ":"))})


def _memory(run: dg.DagsterRun) -> dict[str, Any]:
    """Empty where somebody else wrote the tag, and it can't be read."""
    try:
        found: object = json.loads(run.tags.get(MEMORY, "{}"))
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


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
    """Yield the records of a run's plan: what was `asked`, and the `plan`."""
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
