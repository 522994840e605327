"""How far a replica is from being ready: pure rules."""

from samza_dagster.lag.choice import Candidate, soonest_ready
from samza_dagster.lag.clocks import HostClock, clocks, newest_reports
from samza_dagster.lag.forecast import Applied, Forecast, last_of, time_to_ready
from samza_dagster.lag.heard import Heard, all_silent, heard, silent_after_ms
from samza_dagster.lag.records import records_behind
from samza_dagster.lag.stall import stalled_for_ms, stands_since

__all__ = [
    "Applied",
    "Candidate",
    "Forecast",
    "Heard",
    "HostClock",
    "all_silent",
    "clocks",
    "heard",
    "last_of",
    "newest_reports",
    "records_behind",
    "silent_after_ms",
    "soonest_ready",
    "stalled_for_ms",
    "stands_since",
    "time_to_ready",
]
