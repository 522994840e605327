"""Standalone processors in histories that nobody chose: one owner for a task, and none forgotten."""

from __future__ import annotations

from functools import partial

import pytest

from samza_dagster.simulation.standalone_world import StandaloneWorld
from tests.rig.standalone_groups import dealt

pytestmark = pytest.mark.unit

TASKS = frozenset(f"Partition {number}" for number in range(4))


spread = partial(dealt, TASKS)


@pytest.mark.parametrize("seed", range(100))
def test_no_task_has_two_owners_and_none_is_forgotten(seed: int) -> None:
    """Whatever pauses, is cut off, crashes and comes back, and whatever is asked of the group; every other
    history beside Samza's own processors."""
    beside_samza = bool(seed % 2)
    StandaloneWorld(seed, spread, TASKS, follows_pins=False, beside_samza=beside_samza).run(400)
