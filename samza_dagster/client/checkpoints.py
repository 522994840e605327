"""Samza's checkpoint records, and what they say about progress. Pure.

Key: `{"systemstreampartition-grouper-factory","taskName","type"}`; `checkpoint-v2`
holds `input-offsets` and the changelog offset of each store; `checkpoint` (v1) has
both kinds of offset in one map.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.client.views import View
from samza_dagster.model.numbers import long_or_none

_KAFKA_BACKEND = "KafkaChangelogStateBackendFactory"


@dataclass(frozen=True)
class Checkpoint:
    """One commit of a task: next to nothing but offsets.

    `at_ms` is the record's time, by the clock of the container's host: to be shown. `offset` is
    the record's own, which tells what was committed before what: the topic has one partition.
    """

    task_name: str
    at_ms: int
    input_offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    changelog_offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    offset: int = -1


@dataclass(frozen=True)
class TaskProgress(View):
    """Newest checkpoint of one task against what stood before; its time is its host's."""

    task_name: str
    checkpoint_at_ms: int | None
    advanced: bool
    input_offsets: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ProcessorProgress(View):
    """Does an active processor process: a task's input offset grew in a commit from `since` on.

    `since` is an offset of the checkpoint topic; `end` is where the topic ended.
    """

    processor_id: str
    since: int
    processing: bool
    tasks: tuple[TaskProgress, ...]
    end: int = 0


def parse_checkpoint(
    key: bytes | None, value: bytes | None, at_ms: int, offset: int = -1
) -> Checkpoint | None:
    """The checkpoint of a record of the checkpoint topic; None for any other record."""
    if not key or not value:
        return None
    try:
        head, body = json.loads(key), json.loads(value)
        task, kind = str(head["taskName"]), head["type"]
        if kind == "checkpoint-v2":
            inputs = _numbers(body["input-offsets"])
            return Checkpoint(task, at_ms, inputs, _markers(body), offset)
        if kind == "checkpoint":
            inputs = {
                f"{entry['system']}.{entry['stream']}.{entry['partition']}": entry["offset"]
                for entry in body.values()
            }
            return Checkpoint(task, at_ms, _numbers(inputs), offset=offset)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None


def _numbers(offsets: Mapping[str, Any]) -> dict[str, int]:
    # A changelog's offset in a v1 checkpoint is `<checkpoint id>:<offset>`: no input.
    known = {name: long_or_none(text) for name, text in offsets.items()}
    return {name: offset for name, offset in known.items() if offset is not None}


def _markers(body: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for factory, stores in body.get("state-checkpoint-markers", {}).items():
        if not factory.endswith(_KAFKA_BACKEND):
            continue
        for store, text in stores.items():
            offset = long_or_none(json.loads(text).get("changelog-offset"))
            if offset is not None:
                found[store] = offset
    return found


def newest(checkpoints: Iterable[Checkpoint]) -> dict[str, Checkpoint]:
    """Task → its newest checkpoint; of one commit, written twice, the one with store offsets."""
    found: dict[str, Checkpoint] = {}
    for checkpoint in sorted(checkpoints, key=lambda c: c.offset):
        known = found.get(checkpoint.task_name)
        tells_less = bool(known and known.changelog_offsets and not checkpoint.changelog_offsets)
        if not (tells_less and known and known.input_offsets == checkpoint.input_offsets):
            found[checkpoint.task_name] = checkpoint
    return found


def task_progress(task_name: str, checkpoints: Iterable[Checkpoint], since: int) -> TaskProgress:
    """Whether an input offset of the task grew in a commit at offset `since` or behind it.

    Compared with its last commit before `since`, or, when none is left in the topic, with
    its first one after it.
    """
    mine = sorted((c for c in checkpoints if c.task_name == task_name), key=lambda c: c.offset)
    before = [c for c in mine if c.offset < since]
    after = [c for c in mine if c.offset >= since]
    last = mine[-1] if mine else None
    base = before[-1] if before else (after[0] if after else None)
    advanced = base is not None and any(
        offset > base.input_offsets[name]
        for checkpoint in after
        for name, offset in checkpoint.input_offsets.items()
        if name in base.input_offsets
    )
    return TaskProgress(
        task_name=task_name,
        checkpoint_at_ms=last.at_ms if last else None,
        advanced=advanced,
        input_offsets=dict(last.input_offsets) if last else {},
    )
