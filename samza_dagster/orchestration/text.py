"""Words and orders of what people read: durations, times, names with numbers in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def in_words(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `9 d`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24:,} d"


def clock(ms: int) -> str:
    """A time in ms since the epoch, UTC, for a table."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key of order: host-2 before host-10."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"([0-9]+)", name) if p]
