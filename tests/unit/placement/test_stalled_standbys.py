"""A standby that stalls again and again, or by another leader's clock; `failover.scenes` tells the rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.reducer import step
from tests.simulation.steps import handle
from tests.unit.placement.scenes import Scene, running

pytestmark = pytest.mark.unit

NOTICED_MS = 120_000
HALF_AN_HOUR_MS = 1_800_000
HOUR_MS = 3_600_000


def stall(world: Scene, for_ms: int = NOTICED_MS) -> None:
    """It is told that 0-0 stands still."""
    why = "it stands at offset 3, the end is 9"
    handle(world, ev.StandbyStalled(world.now_ms, world.execution("0-0"), why, for_ms))


def stalls_for_ever(world: Scene, for_ms: int) -> list[tuple[int, str | None]]:
    """It never applies anything: told every minute from 120 s after each start. When, and where."""
    restarts: list[tuple[int, str | None]] = []
    began = started = world.now_ms
    while world.now_ms - began < for_ms:
        stands_ms = world.now_ms - started
        host, seen = world.placed("0-0"), len(world.stopped())
        if stands_ms >= NOTICED_MS:
            stall(world, stands_ms)
        if len(world.stopped()) > seen:
            restarts.append((world.now_ms - began, host))
            world.until_all_run()
            started = world.now_ms
        world.wait(60_000)
        world.until_all_run()
    return restarts


def test_one_that_stalls_wherever_it_starts_isnt_restarted_for_ever() -> None:
    """A stall takes two minutes to be seen: by the failures within a window it would never pause."""
    world = running()
    restarts = stalls_for_ever(world, 6 * HOUR_MS)
    at_minutes = [at_ms // 60_000 for at_ms, _ in restarts]
    waits = [later - sooner for sooner, later in pairwise(at_minutes)]
    assert waits[:6] == [2, 5, 10, 20, 40, 60]
    assert set(waits[6:]) == {60}
    assert world.counted()["stalled-standbys"] == len(restarts) == len(world.stopped())


def test_from_the_second_stall_in_a_row_it_starts_elsewhere() -> None:
    """What kept it from applying may be the host's."""
    world = running()
    restarts = stalls_for_ever(world, HOUR_MS)
    hosts = [host for _, host in restarts]
    assert hosts[:2] == ["host-2", "host-2"]
    assert all(one != next_ for one, next_ in pairwise(hosts[1:]))
    assert "host-1" not in hosts


def test_without_another_legal_host_it_starts_where_it_was() -> None:
    """Nothing is asked for that can't be had: it isn't down a moment longer."""
    world = running(
        {"0": "host-1", "0-0": "host-2"}, groups={"0": ("0", "0-0")}, hosts=("host-1", "host-2")
    )
    assert {host for _, host in stalls_for_ever(world, HOUR_MS)} == {"host-2"}
    assert set(world.asked_for("0-0")) == {"host-2"}


def test_after_it_applied_for_half_an_hour_a_stall_is_a_first_one() -> None:
    """On its own host, at once. One that stands still for so long hasn't applied."""
    for applied_ms, first in ((HALF_AN_HOUR_MS, True), (HALF_AN_HOUR_MS - 1, False)):
        world = running()
        stalls_for_ever(world, 5 * 60_000)
        *_, last = world.processor("0-0").stalled_at_ms
        while world.now_ms < last + HALF_AN_HOUR_MS + NOTICED_MS:
            world.wait(min(60_000, last + HALF_AN_HOUR_MS + NOTICED_MS - world.now_ms))
            world.until_all_run()
        place = world.placed("0-0")
        stall(world, world.now_ms - last - applied_ms)
        world.until_all_run()
        assert (world.placed("0-0") == place) is first
        assert (len(world.processor("0-0").stalled_at_ms) == 1) is first


def test_a_leader_whose_clock_is_behind_doesnt_wait_for_it() -> None:
    """What another leader's clock said is no reason to leave it alone."""
    world = running()
    stalls_for_ever(world, 5 * 60_000)
    processor = world.processor("0-0")
    ahead = tuple(at_ms + 24 * HOUR_MS for at_ms in processor.stalled_at_ms)
    group = world.group()
    changed = replace(
        group, processors={**group.processors, "0-0": replace(processor, stalled_at_ms=ahead)}
    )
    state = rebuilt(replace(world.state, groups=world.state.groups.insert("0", changed)))
    assert processor.incarnation is not None
    told = ev.StandbyStalled(world.now_ms, processor.incarnation.execution_id, "", NOTICED_MS)
    assert any(isinstance(c, cmd.StopContainer) for c in step(state, told).commands)
