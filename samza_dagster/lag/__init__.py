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
        stalled_since,
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
        ReplicaReadiness,
        ReplicaReports,
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
        speeds,
    )
    from samza_dagster.lag.reports import Course, ReplicaReport, course
    from samza_dagster.lag.status import Bounds, Judgement, StandbyStatus, judge, of_standby

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
    "Judgement",
    "Kept",
    "LostContainer",
    "NewestReadiness",
    "Pace",
    "Part",
    "Past",
    "PastError",
    "Published",
    "ReplicaReadiness",
    "ReplicaReport",
    "ReplicaReports",
    "RestoreForecast",
    "Speeds",
    "StandbyReadiness",
    "StandbyStatus",
    "StorePart",
    "all_silent",
    "back_test",
    "behind",
    "clocks",
    "course",
    "forecast",
    "heard",
    "host_losses",
    "judge",
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
    "silent_after_ms",
    "soonest_ready",
    "soonness",
    "speeds",
    "stalled_for_ms",
    "stalled_since",
    "standby_readiness",
    "time_to_ready",
    "times_to_ask",
]

_LATE = ("forecasting", "newest", "past", "readiness", "recovery", "reports", "status")


def __getattr__(name: str) -> Any:
    for module in _LATE if name in __all__ else ():
        found = vars(import_module(f"{__name__}.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
