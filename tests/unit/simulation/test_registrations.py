"""Agents that are started in another's stead with other options, or of another release."""

from __future__ import annotations

import pytest

from samza_dagster.placement.state import Limits, Phase, PlacementAsk
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.judges.violation import SAME_HOST, InvariantViolated
from tests.simulation.moves import Move
from tests.simulation.world import World

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3", "host-4")
RACKS = {"host-1": "rack-1", "host-2": "rack-2", "host-3": "rack-3", "host-4": "rack-3"}


def running(
    racks: dict[str, str] | None = None, layout: dict[str, tuple[str, ...]] | None = None
) -> World:
    """Active 0 (and 1) runs on host-1, its standby on host-2."""
    world = World.of(HOSTS, judge=InvariantJudge(), domains=racks)
    seen = {"0": "host-1", "0-0": "host-2", "1": "host-1", "1-0": "host-2"}
    limits = Limits(host_affinity=True)
    world.deploy(layout or {"0": ("0", "0-0")}, last_seen=seen, limits=limits)
    for host in HOSTS:
        world.register(host)
    world.until(lambda: set(world.phases().values()) == {Phase.RUNNING})
    return world


def did(world: World, kind: str, *ids: str | int) -> None:
    assert world.do(Move(kind, ids))


def test_what_runs_beyond_a_smaller_capacity_runs_on_and_nothing_more_fits() -> None:
    """The agent tells that less than nothing is free."""
    world = running(layout={"0": ("0", "0-0"), "1": ("1", "1-0")})
    did(world, "capacity", "host-1", 1)
    world.register("host-1")
    assert world.hosts["host-1"].free() == (-384, -1)
    assert (world.where("0"), world.where("1")) == ("host-1", "host-1")
    did(world, "kill", "host-1", "1")
    world.until(lambda: set(world.phases().values()) == {Phase.RUNNING})
    assert world.where("1") != "host-1"
    assert world.where("0") == "host-1"


def test_a_host_that_tells_more_room_takes_what_waited_for_it() -> None:
    """Its registration is enough."""
    world = running()
    did(world, "capacity", "host-2", 1)
    world.register("host-2")
    world.submit(PlacementAsk("u1", "run-1", "0-0", "host-2", 10, 60_000))
    did(world, "wait", 2_000)
    assert [status for status, _ in world.responses_to("u1")][-1:] != ["SUCCEEDED"]
    did(world, "capacity", "host-2", 4)
    world.register("host-2")
    assert world.hosts["host-2"].free() == (3 * 384, 3)
    world.until(lambda: [status for status, _ in world.responses_to("u1")][-1:] == ["SUCCEEDED"])


def test_a_host_that_comes_into_a_members_rack_keeps_what_runs_on_it() -> None:
    """Nobody is stopped for it, and nobody else starts there."""
    world = running(RACKS)
    did(world, "rack", "host-2", "rack-1")
    world.register("host-2")
    assert (world.where("0"), world.where("0-0")) == ("host-1", "host-2")
    did(world, "kill", "host-2", "0-0")
    world.until(lambda: world.where("0-0") in ("host-3", "host-4"))


def test_a_start_beside_a_member_is_found_by_what_the_hosts_had_told() -> None:
    """A domain that both hosts had told before the start: that of the world doesn't count."""
    world = running(RACKS)
    judge = world.judge
    assert isinstance(judge, InvariantJudge)
    newest = world.entry("0-0").execution_id
    judge._chronicle.beside[newest] = frozenset({"host-1"})  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(InvariantViolated, match="fault domain rack-1") as found:
        judge.world_changed(world)
    assert found.value.invariant == SAME_HOST


def test_a_reboot_leaves_nothing_held() -> None:
    """As `agent/holdings.py`: what was held was for processes that are gone, or never came."""
    world = running()
    world.submit(PlacementAsk("u1", "run-1", "0", "host-3", 10, 60_000, hold=True))
    world.until(lambda: bool(world.held_resources()))
    did(world, "reboot", "host-3")
    assert not world.held_resources()
    world.register("host-3")
    world.until(lambda: bool(world.held_resources()))
    assert world.where("0") == "host-1"


def test_a_start_isnt_kept_for_a_host_that_has_yet_to_register() -> None:
    """By then its agent may go by another journal, and something else may run in its stead."""
    world = running()
    world.submit(PlacementAsk("u1", "run-1", "0", "host-3", 10))
    world.until(lambda: world.phases()["0"] is Phase.STARTING)
    world.hosts["host-3"].commands.clear()
    did(world, "kill-leader")
    did(world, "take-over")
    assert not world.hosts["host-3"].commands
    world.register("host-3")
    world.until(lambda: world.where("0") == "host-3")
