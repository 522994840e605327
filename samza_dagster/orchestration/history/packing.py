"""Statuses of requests as the sensor's cursor keeps them: Dagster stores it with each tick."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""


def packed(statuses: Mapping[str, tuple[Status, ...]]) -> str:
    """Columns, each text once, times as steps from the one before; compressed."""
    words: dict[str, int] = {}
    times: list[int] = []
    before = 0
    for told in statuses.values():
        for _, _, at_ms in told:
            times.append(at_ms - before)
            before = at_ms
    columns: list[Any] = [
        "".join(UUID(uuid).hex for uuid in statuses),  # dashes would take a third more
        [len(told) for told in statuses.values()],
        [words.setdefault(code, len(words)) for told in statuses.values() for code, _, _ in told],
        [words.setdefault(text, len(words)) for told in statuses.values() for _, text, _ in told],
        times,
        list(words),
    ]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(text: str) -> dict[str, tuple[Status, ...]]:
    """What was packed. Raises `ValueError`, `LookupError`, `TypeError` or `zlib.error` for anything else."""
    columns: list[Any] = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    uuids, counts, codes, texts, times, words = columns
    if sum(counts) != len(codes):
        raise ValueError(f"{len(codes)} statuses where {sum(counts)} are counted")
    rows = zip(codes, texts, times, strict=True)
    found: dict[str, tuple[Status, ...]] = {}
    at_ms = 0
    for number, count in enumerate(counts):
        told: list[Status] = []
        for _ in range(count):
            code, message, step = next(rows)
            at_ms += step
            told.append((words[code], words[message], at_ms))
        found[str(UUID(uuids[number * 32 : number * 32 + 32]))] = tuple(told)
    return found


def joined(marks: Iterable[str]) -> str:
    """Marks of one length, as hexadecimal digits, in order."""
    return base64.b64encode(bytes.fromhex("".join(marks))).decode()


def split(text: str, size: int) -> list[str]:
    """The marks of `size` bytes each that were joined. Raises `ValueError`."""
    told = base64.b64decode(text, validate=True).hex()
    return [told[at : at + 2 * size] for at in range(0, len(told), 2 * size)]
