"""How soon looks of `auto_failover` follow each other; what definitions load of it, apart from its memory."""

from __future__ import annotations

from dataclasses import dataclass

SAME_LOOK_MS = 400
"""Two looks closer together than this count once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something looks bad, and how often it must. Times in ms."""

    bad_looks: int = 3
    bad_within_ms: int = 60_000
    good_looks: int = 3
    host_silent_ms: int = 12_000
    report_silent_ms: int = 90_000
    backlog_records: int = 10_000
    stuck_ms: int = 180_000
    growing_commits: int = 3
    growing_ms: int = 60_000
    standby_behind_records: int = 1_000
    standby_stands_ms: int = 240_000
    standby_down_ms: int = 300_000
    leader_beats: int = 3
