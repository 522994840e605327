"""What a long wait says of itself: each half minute, what it sees and how long is left."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration.operations.step import seen_now
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.unit
UUID = "00000000-0000-4000-8000-000000000001"


def test_a_restore_is_told_by_the_records_left() -> None:
    """The most that any of its stores is behind, and where its action is."""
    world = SteppedJob.demo()
    client = world.client()
    client.place("0-0", "host-4", uuid=UUID)
    for _ in range(2):
        world.go_on(UUID)
    world.states["0-0"], world.lag_now = "starting", {"0-0": [17, 12_345]}
    at = "0-0 is starting on host-3"
    told = seen_now(client, "0-0", UUID)
    assert told == f"its action is at starting, {at}, 12,345 records behind"
    world.lag_now = {"0-0": [None]}
    assert seen_now(client, "0-0") == f"{at}, lag unknown"
    world.lag_now = {}
    assert seen_now(client, "0-0") == at
    assert seen_now(client, "0-1") == "0-1 isn't in the job"


def test_a_look_that_fails_ends_no_wait() -> None:
    """The line says that nobody answered."""
    world = SteppedJob.demo()
    client = world.client()
    world.away = True
    assert seen_now(client, "0") == "0 can't be looked at: no broker answers"
