"""Signs that a job under Samza's own Application Master runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from samza_dagster.client.host_clocks import StandingReport
from samza_dagster.client.views import JobView, View
from samza_dagster.metadata.resource_manager import RUNNING

if TYPE_CHECKING:
    from samza_dagster.client.placement_client import PlacementClient

_LOOK_EVERY_S = 5.0
_BY_YARN = "YARN's ResourceManager tells, where its address is given (--yarn-resource-manager)"
_NO_SIGN = "Samza's AM leaves no sign of life in the coordinator stream"


@dataclass(frozen=True)
class SignsOfLife(View):
    """`runs` is None if no source tells. `seen` names the source that told, or the one that would, and by when."""

    runs: bool | None
    seen: str


def known_life(view: JobView) -> SignsOfLife | None:
    """Return what is known without a look; None if the coordinator shows its own signs of life."""
    if view.capabilities.shows_its_life:
        return None
    if view.dead is not None:
        return SignsOfLife(False, view.dead)
    if view.application is not None:
        runs = True if view.application.state == RUNNING else None
        return SignsOfLife(runs, f"YARN's ResourceManager: {view.application}")
    if not view.report_every_s:
        return SignsOfLife(
            None, f"{_NO_SIGN}, and no metrics reporter writes to a topic; {_BY_YARN}"
        )
    return SignsOfLife(
        None,
        f"{_NO_SIGN}. Its containers report every {view.report_every_s} s: a look for one report"
        f" takes so long at most (samza-dagster status --look); none for {view.report_patience_s} s"
        f" means that nothing runs. {_BY_YARN}",
    )


def looked_for(
    client: PlacementClient,
    view: JobView,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> SignsOfLife | None:
    """Return what is known after a look for a new report, of one interval at most; by offsets alone.

    If it is known without a look, there is none. Raises `Unreachable` when no report can be read.
    """
    known = known_life(view)
    if known is None or known.runs is not None or not view.report_every_s:
        return known
    began_s, before = monotonic(), _newest(client)
    passed_s = 0.0
    while passed_s < view.report_every_s:
        sleep(min(_LOOK_EVERY_S, view.report_every_s - passed_s))
        passed_s = monotonic() - began_s
        for place, report in _newest(client).items():
            if place not in before or before[place].offset < report.offset:
                return SignsOfLife(True, f"{report.host} has reported within {passed_s:.0f} s")
    until = now() + timedelta(seconds=view.report_patience_s - passed_s)
    return SignsOfLife(
        None,
        f"nobody has reported for {passed_s:.0f} s, and a report may be late or lost; if none comes"
        f" until {until:%H:%M:%S} UTC nothing runs. {_BY_YARN}",
    )


def _newest(client: PlacementClient) -> dict[tuple[str, int], StandingReport]:
    """Partition → its last report. One that can't be read tells nothing, unless none can."""
    reports, unread = client.reports()
    if unread and not reports:
        raise unread[0]
    return {(report.topic, report.partition): report for report in sorted(reports)}
