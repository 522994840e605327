"""How far the clocks of a job's hosts are from this machine's, by the reports that come while it looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from samza_dagster.client.access import wall_clock_ms
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.readiness import HostClock, clocks, newest_reports

LOOK_EVERY_S = 1.0
LOOK_FOR_S = 15.0


def observed_clocks(
    client: PlacementClient,
    *,
    look_for_s: float = LOOK_FOR_S,
    now_ms: Callable[[], int] = wall_clock_ms,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, HostClock]:
    """Host → what is known of its clock, of those whose containers of a job with stores report.

    Looks until each has reported anew, for `look_for_s` at most; nothing is known of the others.
    """
    found: Mapping[str, HostClock] = {}
    began = looked = now_ms()
    while True:
        looking = now_ms()
        reports = newest_reports((lag.host, lag.observed_at_ms) for lag in client.lag())
        found = clocks(found, reports, looked_ms=looked, now_ms=now_ms())
        looked = looking
        waits = any(clock.least_ms is None for clock in found.values())
        if not waits or looked - began >= look_for_s * 1000:
            return dict(found)
        sleep(LOOK_EVERY_S)
