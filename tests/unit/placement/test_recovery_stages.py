"""A coordinator that dies at any stage: the next one says the same again, and the end is the same.

That it decides nothing anew is judged at every take-over of every simulated history.
"""

from __future__ import annotations

import pytest

from samza_dagster.placement.state import Fencing, Limits
from tests.unit.placement.scenes import QUICK, Scene, running
from tests.unit.placement.stories import ended, take

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000)
EVERY_FAILURE_PAUSES = Limits(retry_count=0)
MOMENTS: dict[str, Limits] = {
    "move 0 to host-3; until reserving": QUICK,
    "move 0 to host-3; until stopping": QUICK,
    "move 0 to host-3; until starting": QUICK,
    "restart 0 at LAST_SEEN; until stopping": QUICK,
    "restart 0 at FORCE_RESTART_LAST_SEEN; until stopping": QUICK,
    "restart 0 at FORCE_RESTART_LAST_SEEN; until starting": QUICK,
    "move 0 to STANDBY; until reserving-standby": QUICK,
    "move 0 to STANDBY; until stopping-standby": QUICK,
    "move 0 to STANDBY; until reserving": QUICK,
    "move 0 to STANDBY; until stopping": QUICK,
    "move 0 to STANDBY; until starting": QUICK,
    "fail 0 over; until stopping-standby": QUICK,
    "fail 0 over; until reserving": QUICK,
    "start a standby of 0 on host-3; until reserving": QUICK,
    "start a standby of 0 on host-3; until starting": QUICK,
    "stop standby 0-0; until stopping": QUICK,
    "host-3 starts nothing; move 0 to host-3; until fallback-source": QUICK,
    "host-3 starts nothing; host-1 starts nothing; move 0 to host-3; until fallback-any": QUICK,
    "0 dies and its room is taken": QUICK,
    "0 dies and its room is taken; until 0 fails over": QUICK,
    "0 dies and its room is taken; until 0 is reserved": QUICK,
    "0 dies and its room is taken; until 0 is starting": QUICK,
    "0 dies and its room is taken; until 0-0 is requesting": QUICK,
    "0-0 dies; until 0-0 is starting": QUICK,
    "host-1 is lost": QUICK,
    "host-1 is lost; until 0 is reserved": QUICK,
    "host-2 is lost": FENCED,
    "0 dies; until 0 is waiting": EVERY_FAILURE_PAUSES,
    "0 dies; until 0 is starting": EVERY_FAILURE_PAUSES,
}


def end(world: Scene) -> tuple[object, ...]:
    """What a person sees in the end."""
    ended(world)
    told = world.told("u1")
    return {pid: world.placed(pid) for pid in world.phases()}, told[-1] if told else None


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_take_over_does_not_change_the_end(moment: str) -> None:
    """Who runs where, and what the client was told."""
    undisturbed = end(take(running(limits=MOMENTS[moment]), moment))
    world = take(running(limits=MOMENTS[moment]), moment)
    world.restart_coordinator()
    assert end(world) == undisturbed
