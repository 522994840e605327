from __future__ import annotations

import dagster as dg
import pytest
from bounce_runs import in_virtual_time

from tests.rig.bounce_world import BounceWorld


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BounceWorld:
    """The demo job in virtual time."""
    made = BounceWorld()
    in_virtual_time(made, monkeypatch)
    return made


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """Bounces of a job exclude each other, so each test has its own."""
    return own_instance
