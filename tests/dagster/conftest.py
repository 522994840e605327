from __future__ import annotations

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
