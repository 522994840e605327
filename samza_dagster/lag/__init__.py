"""How far a replica is behind, and when a standby is ready: pure rules, shared by all callers."""

# isort: skip_file
# fmt: off
from samza_dagster.lag.clocks import (
    Heard, HostClock, all_silent, clocks, heard, newest_reports, silent_after_ms,
)
from samza_dagster.lag.forecasting import (
    Applied, Forecast, Pace, forecast, last_of, pace, stalled_for_ms, stalled_since, time_to_ready,
)
from samza_dagster.lag.newest import (
    GOOD_FOR_MS, NewestReadiness, Part, Published, newest_readiness, published, soonest_ready, soonness,
)
from samza_dagster.lag.readiness import (
    PACED_BY, Bounds, Course, Judgement, ReplicaReadiness, ReplicaReport, StandbyStatus, course, judge,
    of_standby, replica_readiness,
)
from samza_dagster.lag.records import (
    Behind, Came, FirstSince, behind, records_behind, times_to_ask,
)
from samza_dagster.lag.recovery import (
    Container, RestoreForecast, Speeds, StorePart, after_a_loss, restore_forecast, speeds,
)

__all__ = [
    "GOOD_FOR_MS", "PACED_BY", "Applied", "Behind", "Bounds", "Came", "Container", "Course", "FirstSince",
    "Forecast", "Heard", "HostClock", "Judgement", "NewestReadiness", "Pace", "Part", "Published",
    "ReplicaReadiness", "ReplicaReport", "RestoreForecast", "Speeds", "StandbyStatus", "StorePart",
    "after_a_loss", "all_silent", "behind", "clocks", "course", "forecast", "heard", "judge", "last_of",
    "newest_readiness", "newest_reports", "of_standby", "pace", "published", "records_behind",
    "replica_readiness", "restore_forecast", "silent_after_ms", "soonest_ready", "soonness", "speeds",
    "stalled_for_ms", "stalled_since", "time_to_ready", "times_to_ask",
]
