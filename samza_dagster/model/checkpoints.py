"""Samza's checkpoint records: what a task has read, and where its changelogs ended then. Pure.

Key: `{"systemstreampartition-grouper-factory","taskName","type"}`. A commit is written in both
versions by default. `checkpoint-v2` holds `input-offsets`, and a marker with the changelog's offset
of each store. `checkpoint` (v1) has both in one map: a changelog's offset is `<checkpoint
id>:<offset>`. Sources: Samza's `KafkaCheckpointLogKeySerde`, `CheckpointV1Serde`,
`KafkaChangelogSSPOffset`, `KafkaStateCheckpointMarker` (1.8.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.changelogs import offset_gauge
from samza_dagster.model.numbers import long_or_none

V1, V2 = "checkpoint", "checkpoint-v2"
_BACKEND = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


class CheckpointKey(NamedTuple):
    """The task of a record, and its version; of these the one written last counts."""

    version: str
    task_name: str


class Checkpoint(NamedTuple):
    """A commit of a task: offsets alone.

    Inputs are by `<system>.<stream>.<partition>`, changelogs by the gauge that their standbys
    report. `at_ms` is the record's time, by the clock of the container's host: to be shown.
    `offset` is the record's own, which tells what was committed before what: the topic has one
    partition.
    """

    task_name: str
    at_ms: int
    input_offsets: Mapping[str, int] = {}
    changelog_offsets: Mapping[str, int] = {}
    offset: int = -1


def checkpoint_key(key: bytes | None) -> CheckpointKey | None:
    """Decode the key of a record of a checkpoint topic; None: of a type that is no checkpoint.

    Raises `MalformedRecord`, which says what is wrong with it.
    """
    try:
        head = orjson.loads(key or b"")
        version, task = head["type"], head["taskName"]
    except _UNREADABLE as error:
        raise _malformed(f"its key has no type and taskName: {error!s:.80}") from None
    if not isinstance(version, str) or not isinstance(task, str):
        raise _malformed("its key has no type and taskName")
    return CheckpointKey(version, task) if version in (V1, V2) else None


def decode_checkpoint(
    key: CheckpointKey, value: bytes, at_ms: int = 0, offset: int = -1
) -> Checkpoint:
    """Decode the value of a checkpoint.

    Raises `MalformedRecord`, which says what is wrong with it.
    """
    try:
        inputs, changelogs = (_of_v1 if key.version == V1 else _of_v2)(orjson.loads(value))
    except _UNREADABLE as error:
        raise _malformed(f"its value is no {key.version}: {error!s:.80}") from None
    return Checkpoint(key.task_name, at_ms, inputs, changelogs, offset)


def _of_v1(body: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    inputs: dict[str, int] = {}
    changelogs: dict[str, int] = {}
    for ssp in body.values():
        checkpoint_id, _, text = str(ssp["offset"]).rpartition(":")
        offset = long_or_none(text)
        if offset is not None and checkpoint_id:
            changelogs[_gauge(ssp)] = offset
        elif offset is not None:
            inputs[f"{ssp['system']}.{ssp['stream']}.{ssp['partition']}"] = offset
    return inputs, changelogs


def _of_v2(body: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    inputs: dict[str, int] = {}
    changelogs: dict[str, int] = {}
    for name, text in body["input-offsets"].items():
        if (offset := long_or_none(text)) is not None:
            inputs[name] = offset
    for marker in body.get("state-checkpoint-markers", {}).get(_BACKEND, {}).values():
        fields = orjson.loads(marker)
        if (offset := long_or_none(fields["changelog-offset"])) is not None:
            changelogs[_gauge(fields["changelog-ssp"])] = offset
    return inputs, changelogs


def _gauge(ssp: Mapping[str, Any]) -> str:
    return offset_gauge(ssp["system"], ssp["stream"], ssp["partition"])


def _malformed(seen: str) -> MalformedRecord:
    return MalformedRecord("read a checkpoint", seen=seen)
