"""How far a replica is behind, and when a standby is ready: pure rules, the same for all who ask.

What definitions need is loaded with the package, the rest on first use: it would delay each run's start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samza_dagster.lag.choice import GOOD_FOR_MS, soonness
from samza_dagster.lag.clocks import HostClock, clocks, newest_reports
from samza_dagster.lag.heard import Heard, all_silent, heard, silent_after_ms
from samza_dagster.lag.records import Behind, Came, FirstSince, behind, records_behind, times_to_ask

if TYPE_CHECKING:
    from samza_dagster.lag.forecasting import (
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
    from samza_dagster.lag.newest import (
        NewestReadiness,
        Part,
        Published,
        newest_readiness,
        published,
        soonest_ready,
    )
    from samza_dagster.lag.past import Kept, Past, PastError, back_test, pasts, ready_at_ms
    from samza_dagster.lag.readiness import (
        Replica,
        ReplicaReadiness,
        StandbyReadiness,
        replica_readiness,
        standby_readiness,
    )
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
        speeds,
    )
    from samza_dagster.lag.reports import Course, Report, course
    from samza_dagster.lag.stand import Bounds, Stand, Steadiness, of_standby, steadiness

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
    "Kept",
    "LostContainer",
    "NewestReadiness",
    "Pace",
    "Part",
    "Past",
    "PastError",
    "Published",
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
    "newest_readiness",
    "newest_reports",
    "of_standby",
    "pace",
    "pasts",
    "published",
    "ready_at_ms",
    "records_behind",
    "replica_readiness",
    "restore_forecast",
    "restore_forecasts",
    "silent_after_ms",
    "soonest_ready",
    "soonness",
    "speeds",
    "stalled_for_ms",
    "standby_readiness",
    "stands_since",
    "steadiness",
    "time_to_ready",
    "times_to_ask",
]

_LAZY = {
    "Applied": "forecasting",
    "Bounds": "stand",
    "Container": "recovery",
    "Course": "reports",
    "Errors": "forecasting",
    "Forecast": "forecasting",
    "HostLoss": "recovery",
    "Kept": "past",
    "LostContainer": "recovery",
    "NewestReadiness": "newest",
    "Pace": "forecasting",
    "Part": "newest",
    "Past": "past",
    "PastError": "past",
    "Published": "newest",
    "Replica": "readiness",
    "ReplicaReadiness": "readiness",
    "Report": "reports",
    "RestoreForecast": "recovery",
    "Speeds": "recovery",
    "Stand": "stand",
    "StandbyReadiness": "readiness",
    "Steadiness": "stand",
    "StorePart": "recovery",
    "back_test": "past",
    "course": "reports",
    "forecast": "forecasting",
    "host_losses": "recovery",
    "last_of": "forecasting",
    "newest_readiness": "newest",
    "of_standby": "stand",
    "pace": "forecasting",
    "pasts": "past",
    "published": "newest",
    "ready_at_ms": "past",
    "replica_readiness": "readiness",
    "restore_forecast": "recovery",
    "restore_forecasts": "recovery",
    "soonest_ready": "newest",
    "speeds": "recovery",
    "stalled_for_ms": "forecasting",
    "standby_readiness": "readiness",
    "stands_since": "forecasting",
    "steadiness": "stand",
    "time_to_ready": "forecasting",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
