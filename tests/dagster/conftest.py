from __future__ import annotations

import time
from collections.abc import Iterator

import dagster as dg
import pytest
from fake_placement import WORLDS, World


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The demo job's containers, under the test's own name and as the re-executed jobs' world."""
    name = request.node.name
    WORLDS[name] = WORLDS["reexecuted"] = World.demo()
    yield WORLDS[name]
    WORLDS.clear()


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def own_instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory of this test's own."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sensor's clock, in ms; the ops have their own."""
    now = [time.time_ns() // 1_000_000]
    monkeypatch.setattr(
        "samza_dagster.orchestration.waits.continuation.time.time_ns", lambda: now[0] * 1_000_000
    )
    return now
