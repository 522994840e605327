"""Pictures of a small job as its shadow sees it: actives 0 and 1 with a standby each, on four hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from samza_dagster.client.views import HostView, JobView
from samza_dagster.coordinator.shadow.picture import Asked, Picture, Report, Start
from samza_dagster.metadata.resource_manager import Application
from tests.rig.job_views import job_view

AT = {"0": "h1", "0-0": "h2", "1": "h3", "1-0": "h4"}
APPLICATION = Application("application_1_0001", "RUNNING")


def view(
    at: Mapping[str, str | None], lost: str = "", closed: str = "", run: str = "run-1"
) -> JobView:
    """Return the job under Samza's AM on hosts `h1` to `h4`."""
    states = {lost: "lost", closed: "closed"}
    hosts = [HostView(f"h{n}", states.get(f"h{n}", "alive")) for n in range(1, 5)]
    made = job_view(at, hosts, application=APPLICATION, coordinator="samza")
    return replace(made, deployment_id=run)


def picture(
    at_ms: int = 100_000,
    at: Mapping[str, str | None] | None = None,
    *,
    positions: Mapping[str, int] | None = None,
    reports: Mapping[str, Report] | None = None,
    requests: Mapping[str, Asked] | None = None,
    executions: Mapping[str, tuple[str, str]] | None = None,
    lost: str = "",
    closed: str = "",
    run: str = "run-1",
) -> Picture:
    """Return a picture; each container's start stands at its position (10, if nothing is said)."""
    places = AT if at is None else at
    starts = {
        pid: Start((positions or {}).get(pid, 10), at_ms - 500, host or "")
        for pid, host in places.items()
    }
    return Picture(
        at_ms,
        view(places, lost, closed, run),
        starts=starts,
        executions=executions,
        reports=reports or {},
        requests=requests or {},
        partitions={pid: {f"P {pid}": (("log", 0),)} for pid in places},
    )
