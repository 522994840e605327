"""Standalone processors in histories that nobody chose: one owner for a task, and none forgotten."""

from __future__ import annotations

import pytest

from tests.simulation.standalone_world import world_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seed", range(30))
def test_no_task_has_two_owners_and_none_is_forgotten(seed: int) -> None:
    """Whatever pauses, is cut off, crashes and comes back, whatever is asked of the group and done to its nodes by hand;
    every other history beside Samza's own processors, and by each of the groupers."""
    world_of(seed).run(400)
