"""Whether a start is still wanted: whoever has it to repeat asks between two steps."""

from __future__ import annotations

import pytest

from samza_dagster.placement.ownership import is_starting
from samza_dagster.placement.state import Phase
from tests.unit.placement.scenes import running

pytestmark = pytest.mark.unit


def test_only_who_has_not_checked_in_is_starting() -> None:
    """Not another of its group that has no process, nor one that runs, nor one unheard of."""
    world = running()
    world.evict("0-0")
    assert world.processor("0-0").incarnation is None
    runs = world.execution("0")
    assert not is_starting(world.state, runs)
    assert not is_starting(world.state, "demo-0-000099")
    world.make_room("host-2")
    world.until_phase("0-0", Phase.STARTING)
    assert is_starting(world.state, world.execution("0-0"))
    assert not is_starting(world.state, runs)


def test_an_active_that_is_down_is_not_what_starts() -> None:
    """It comes first in its group, and has nothing that could be compared."""
    world = running()
    world.evict("0")
    assert world.processor("0").incarnation is None
    assert not is_starting(world.state, world.execution("0-0"))
