"""The record of a plan that a run keeps in its event log, for the re-executions of its chain.

Whole in any case, as they carry it out: one that is long is kept packed.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from typing import Any

PLAN_RECORD = "plan_record"
MOST_PLAIN = 30_000
"""Bytes; ten thousand containers take 2 MB plain, 40 kB packed."""
_PACKED = "xz+base64 of JSON"


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
