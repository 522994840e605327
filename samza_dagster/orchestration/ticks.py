"""Ticks of sensors: when Dagster begins them, and clocks that don't jump."""

from __future__ import annotations

import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BEGAN_MS = (time.time_ns() - time.monotonic_ns()) // 1_000_000


def least_seconds(interval_s: int) -> int:
    """The `minimum_interval_seconds` with which ticks come every `interval_s`.

    Dagster's daemon looks every 5 s which sensors are due (`MIN_INTERVAL_LOOP_TIME`), and
    by then a tick is as often 4.99 s old as 5.01: with the interval itself every other
    one is left out, and 5 s become 10.
    """
    return max(1, interval_s - 1)


def since_boot() -> tuple[str, int]:
    """Which boot of which machine this is, and the ms since then, also asleep; "" where none says."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        return boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    except (OSError, ValueError, AttributeError):
        return "", 0


def elapsed_ms() -> int:
    """Ms since the epoch by the wall clock when this process began, and what has passed since.

    For whoever waits and tells times: to be compared with what the same process has told alone.
    """
    return _BEGAN_MS + time.monotonic_ns() // 1_000_000


def steady_now(clock: str, wall_ms: int, boot: str, booted_ms: int) -> tuple[int, str]:
    """Now in ms since the epoch, by a clock that no step of the wall clock moves; and that clock.

    `clock` is what a former tick kept of it: the boot, and how far ahead of it the wall clock was
    when it was first read. After another boot, or on another machine, it begins anew.
    """
    was, _, ahead = clock.rpartition("/")
    if boot and was == boot and ahead.lstrip("-").isdecimal():
        return booted_ms + int(ahead), clock
    return wall_ms, f"{boot}/{wall_ms - booted_ms}" if boot else ""
