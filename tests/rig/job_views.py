"""A job as a client sees it, by where its containers are; their ids say who is a standby of whom, as Samza's do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from samza_dagster.client.views import HostView, JobView, ProcessorView
from samza_dagster.model import TaskMode


def job_view(
    at: Mapping[str, str | None],
    hosts: Iterable[HostView],
    states: Mapping[str, str] | None = None,
    **more: Any,
) -> JobView:
    """Return the job `demo/1`; all of its containers run but for those that `states` names."""
    processors = {
        pid: ProcessorView(
            *(pid, TaskMode.STANDBY if "-" in pid else TaskMode.ACTIVE),
            *((states or {}).get(pid, "running"), host),
        )
        for pid, host in at.items()
    }
    return JobView("demo", "1", "run-1", processors, {host.host: host for host in hosts}, **more)
