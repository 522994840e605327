"""When Dagster begins the ticks of sensors, and the clock of a run that waits."""

from __future__ import annotations

import time

_BEGAN_MS = (time.time_ns() - time.monotonic_ns()) // 1_000_000


def least_seconds(interval_s: int) -> int:
    """The `minimum_interval_seconds` with which ticks come every `interval_s`.

    Dagster's daemon looks every 5 s which sensors are due (`MIN_INTERVAL_LOOP_TIME`), and
    by then a tick is as often 4.99 s old as 5.01: with the interval itself every other
    one is left out, and 5 s become 10.
    """
    return max(1, interval_s - 1)


def elapsed_ms() -> int:
    """Ms since the epoch by the wall clock when this process began, and what has passed since.

    For a run that waits and tells times: to be compared with what the same process has told alone.
    """
    return _BEGAN_MS + time.monotonic_ns() // 1_000_000
