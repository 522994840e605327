"""Runs of `drain_host` of a full host, in a world in memory."""

from __future__ import annotations

from typing import Any

import dagster as dg
from placement_runs import Run

from tests.rig.stepped_job import SUCCEEDED, SteppedJob

JOB = "drain_host"
DONE = (SUCCEEDED, "done")
HOSTS = ("host-1", "host-2", "host-3", "host-4", "host-5", "host-6")


def config(**more: Any) -> dict[str, Any]:
    return {"ops": {"plan_drain_host": {"config": {"host": "host-1", "steady_s": 0, **more}}}}


def drain(run: Run, **more: Any) -> dg.ExecuteInProcessResult:
    return run(JOB, **{"host": "host-1", "steady_s": 0, **more})


def on(world: SteppedJob, host: str = "host-1") -> list[str]:
    return sorted(p for p, h in world.at.items() if h == host)
