"""How far a replica is behind, and when a standby is ready: pure rules, the same for all who ask."""

from samza_dagster.lag.back_test import Past, PastError, back_test, ready_at_ms
from samza_dagster.lag.choice import GOOD_FOR_MS, soonness
from samza_dagster.lag.clocks import HostClock, clocks, newest_reports
from samza_dagster.lag.course import Course, Report, course
from samza_dagster.lag.forecast import (
    Applied,
    Errors,
    Forecast,
    Pace,
    forecast,
    last_of,
    pace,
    stalled_for_ms,
    stands_since,
    time_to_ready,
)
from samza_dagster.lag.heard import Heard, all_silent, heard, silent_after_ms
from samza_dagster.lag.readiness import (
    Replica,
    ReplicaReadiness,
    StandbyReadiness,
    replica_readiness,
    standby_readiness,
)
from samza_dagster.lag.records import Behind, Came, FirstSince, behind, records_behind, times_to_ask
from samza_dagster.lag.recovery import (
    Container,
    HostLoss,
    LostContainer,
    RestoreForecast,
    Speeds,
    StorePart,
    host_losses,
    restore_forecast,
    restore_forecasts,
)
from samza_dagster.lag.steadiness import Bounds, Stand, Steadiness, of_standby, steadiness

__all__ = [
    "GOOD_FOR_MS",
    "Applied",
    "Behind",
    "Bounds",
    "Came",
    "Container",
    "Course",
    "Errors",
    "FirstSince",
    "Forecast",
    "Heard",
    "HostClock",
    "HostLoss",
    "LostContainer",
    "Pace",
    "Past",
    "PastError",
    "Replica",
    "ReplicaReadiness",
    "Report",
    "RestoreForecast",
    "Speeds",
    "Stand",
    "StandbyReadiness",
    "Steadiness",
    "StorePart",
    "all_silent",
    "back_test",
    "behind",
    "clocks",
    "course",
    "forecast",
    "heard",
    "host_losses",
    "last_of",
    "newest_reports",
    "of_standby",
    "pace",
    "ready_at_ms",
    "records_behind",
    "replica_readiness",
    "restore_forecast",
    "restore_forecasts",
    "silent_after_ms",
    "soonness",
    "stalled_for_ms",
    "standby_readiness",
    "stands_since",
    "steadiness",
    "time_to_ready",
    "times_to_ask",
]
