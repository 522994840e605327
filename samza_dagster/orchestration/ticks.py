"""When Dagster begins the ticks of a sensor."""

from __future__ import annotations


def least_seconds(interval_s: int) -> int:
    """The `minimum_interval_seconds` with which ticks come every `interval_s`.

    Dagster's daemon looks every 5 s which sensors are due (`MIN_INTERVAL_LOOP_TIME`), and
    by then a tick is as often 4.99 s old as 5.01: with the interval itself every other
    one is left out, and 5 s become 10.
    """
    return max(1, interval_s - 1)
