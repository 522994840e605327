"""How far a replica is behind, and when a standby is ready: pure rules, the same for all who ask."""

from samza_dagster.lag.choice import GOOD_FOR_MS, soonness
from samza_dagster.lag.clocks import HostClock, clocks, newest_reports
from samza_dagster.lag.forecast import (
    Applied,
    Forecast,
    last_of,
    stalled_for_ms,
    stands_since,
    time_to_ready,
)
from samza_dagster.lag.heard import Heard, all_silent, heard, silent_after_ms
from samza_dagster.lag.records import Behind, Came, FirstSince, behind, records_behind, times_to_ask

__all__ = [
    "GOOD_FOR_MS",
    "Applied",
    "Behind",
    "Came",
    "FirstSince",
    "Forecast",
    "Heard",
    "HostClock",
    "all_silent",
    "behind",
    "clocks",
    "heard",
    "last_of",
    "newest_reports",
    "records_behind",
    "silent_after_ms",
    "soonness",
    "stalled_for_ms",
    "stands_since",
    "time_to_ready",
    "times_to_ask",
]
