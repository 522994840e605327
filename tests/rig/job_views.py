"""What a client shows of a job, made from the ids of its containers: `0` an active, `0-0` a standby of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from samza_dagster.client.views import HostView, JobView, ProcessorView, ReplicaLag
from samza_dagster.model import TaskMode


def mode_of(ident: str) -> TaskMode:
    return TaskMode.STANDBY if "-" in ident else TaskMode.ACTIVE


def processor(ident: str, host: str | None, state: str = "running", *tasks: str) -> ProcessorView:
    active, _, replica = ident.partition("-")
    task = f"Standby-P {active}-{replica}" if replica else f"P {active}"
    return ProcessorView(ident, mode_of(ident), state, host, f"e{ident}", tasks or (task,))


def job(*processors: ProcessorView, **more: object) -> JobView:
    """`demo/1` under our coordinator, if nothing else is said; each host is alive."""
    hosts = {p.host: HostView(p.host, "alive") for p in processors if p.host}
    known = {p.processor_id: p for p in processors}
    view = JobView("demo", "1", "run-1", known, hosts, coordinator="samza_dagster")
    return replace(view, **more)  # pyright: ignore[reportArgumentType]


def job_view(
    at: Mapping[str, str | None],
    hosts: Iterable[HostView],
    states: Mapping[str, str] | None = None,
    **more: Any,
) -> JobView:
    """Return the job `demo/1` on these hosts; all of its containers run but for those that `states` names."""
    processors = {
        pid: ProcessorView(pid, mode_of(pid), (states or {}).get(pid, "running"), host)
        for pid, host in at.items()
    }
    return JobView("demo", "1", "run-1", processors, {host.host: host for host in hosts}, **more)


def lag(
    ident: str, records: int | None, *, partition: int = 0, at: int = 0, end: int = 10_000
) -> ReplicaLag:
    """Of store `s`, as it was reported `at`."""
    applied = None if records is None else end - records - 1
    return ReplicaLag(
        ident, "t", mode_of(ident), "s", "log", partition, "h", end, applied, records, at
    )
