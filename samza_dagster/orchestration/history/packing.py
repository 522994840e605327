"""Statuses of requests as the sensor's cursor keeps them: Dagster stores it with each tick."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from samza_dagster.orchestration.history.asked import OpenRequest

Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""


_OF_STATUSES = 6
"""Columns of an older release, which kept statuses alone."""


def packed(statuses: Mapping[str, tuple[Status, ...]], asked: Mapping[str, OpenRequest]) -> str:
    """Columns, each text once, times as steps from the one before; compressed.

    A request may have statuses, what it asked, or both.
    """
    words: dict[str, int] = {}
    times: list[int] = []
    before = 0
    for told in statuses.values():
        for _, _, at_ms in told:
            times.append(at_ms - before)
            before = at_ms
    uuids = [*statuses, *(uuid for uuid in asked if uuid not in statuses)]
    columns: list[Any] = [
        "".join(UUID(uuid).hex for uuid in uuids),  # dashes would take a third more
        [len(statuses.get(uuid, ())) for uuid in uuids],
        [words.setdefault(code, len(words)) for told in statuses.values() for code, _, _ in told],
        [words.setdefault(text, len(words)) for told in statuses.values() for _, text, _ in told],
        times,
        [],
    ]
    rows = [_row(asked[u], statuses.get(u, ()), words) if u in asked else None for u in uuids]
    known = [row for row in rows if row is not None]
    columns[_OF_STATUSES - 1] = list(words)
    columns += [[int(row is not None) for row in rows], *zip(*known, strict=True)]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _row(one: OpenRequest, told: tuple[Status, ...], words: dict[str, int]) -> tuple[int, ...]:
    texts = (one.deployment_id, one.processor_id, one.destination, one.stage, one.kind)
    return (
        *(words.setdefault(text, len(words)) for text in texts),
        one.since_ms - (told[-1][2] if told else 0),
        -1 if one.expiry_ms is None else one.expiry_ms,
        one.over_ms,
        one.seen_ms,
    )


def unpacked(text: str) -> tuple[dict[str, tuple[Status, ...]], dict[str, OpenRequest]]:
    """What was packed. Raises `ValueError`, `LookupError`, `TypeError` or `zlib.error` for anything else."""
    columns: list[Any] = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    joined_uuids, counts, codes, texts, times, words = columns[:_OF_STATUSES]
    uuids = [str(UUID(joined_uuids[n * 32 : n * 32 + 32])) for n in range(len(counts))]
    if sum(counts) != len(codes):
        raise ValueError(f"{len(codes)} statuses where {sum(counts)} are counted")
    rows = zip(codes, texts, times, strict=True)
    found: dict[str, tuple[Status, ...]] = {}
    at_ms = 0
    for uuid, count in zip(uuids, counts, strict=True):
        told: list[Status] = []
        for _ in range(count):
            code, message, step = next(rows)
            at_ms += step
            told.append((words[code], words[message], at_ms))
        if told:
            found[uuid] = tuple(told)
    if len(columns) == _OF_STATUSES:
        return found, {}
    has, *of_asked = columns[_OF_STATUSES:]
    known = (uuid for uuid, there in zip(uuids, has, strict=True) if there)
    asked = {
        uuid: OpenRequest(
            uuid,
            *(words[number] for number in told),
            since_ms=since_ms + (found[uuid][-1][2] if uuid in found else 0),
            expiry_ms=None if expiry_ms < 0 else expiry_ms,
            over_ms=over_ms,
            seen_ms=seen_ms,
        )
        for uuid, (*told, since_ms, expiry_ms, over_ms, seen_ms) in zip(
            known, zip(*of_asked, strict=True), strict=True
        )
    }
    return found, asked


def joined(marks: Iterable[str]) -> str:
    """Marks of one length, as hexadecimal digits, in order."""
    return base64.b64encode(bytes.fromhex("".join(marks))).decode()


def split(text: str, size: int) -> list[str]:
    """The marks of `size` bytes each that were joined. Raises `ValueError`."""
    told = base64.b64decode(text, validate=True).hex()
    return [told[at : at + 2 * size] for at in range(0, len(told), 2 * size)]
