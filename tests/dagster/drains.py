"""Runs of `drain_host` of a full host, in a world in memory."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from fake_placement import World
from test_dagster_jobs import run

JOB = "drain_host"


def config(**more: Any) -> dict[str, Any]:
    return {"ops": {"plan_drain_host": {"config": {"host": "host-1", "steady_s": 0, **more}}}}


def drain(
    request: pytest.FixtureRequest, instance: dg.DagsterInstance, **more: Any
) -> dg.ExecuteInProcessResult:
    return run(request.node.name, JOB, instance, **{"host": "host-1", "steady_s": 0, **more})


def on(world: World, host: str = "host-1") -> list[str]:
    return sorted(p for p, h in world.at.items() if h == host)
