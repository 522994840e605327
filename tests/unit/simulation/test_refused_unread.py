"""A request that is answered without the reducer: whatever comes under its uuid is a duplicate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.placement.state import Limits, PlacementAsk
from tests.simulation.client_events import label
from tests.simulation.driver import simulate
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.world import World

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3")


def running(*, remembered: int = 20_000) -> World:
    world = World.of(HOSTS, judge=InvariantJudge())
    limits = Limits(remembered_uuids=remembered)
    world.committed = replace(world.committed, limits=limits)
    world.deploy({"0": ("0",)}, limits=limits)
    for host in HOSTS:
        world.register(host)
    world.settle()
    return world


def refused(world: World, uuid: str) -> None:
    assert world.do(Move("refuse", (uuid,))), f"{uuid} can't be refused"


def arrives(world: World, uuid: str) -> None:
    """The request comes well-formed, and the leader reads it."""
    assert world.do(label(PlacementAsk(uuid, "run-1", "0", "ANY_HOST", 1)))
    assert world.do(Move("read", (0,)))


def test_what_was_refused_unread_and_then_arrives_well_formed_is_not_answered() -> None:
    """It had its outcome: the container stays where it is."""
    world = running()
    where = world.where("0")
    refused(world, "u1")
    arrives(world, "u1")
    world.settle()
    assert (world.responses_to("u1"), world.where("0")) == ([], where)
    assert world.brokers.topic == {}


def test_what_waits_to_be_read_is_over_once_its_uuid_is_refused() -> None:
    """Two records under one uuid: the first that is read has the outcome."""
    world = running()
    assert world.do(label(PlacementAsk("u1", "run-1", "0", "ANY_HOST", 1)))
    refused(world, "u1")
    assert world.do(Move("read", (0,)))
    world.settle()
    assert world.responses_to("u1") == []


def test_histories_have_requests_that_are_refused_unread() -> None:
    """And some of these arrive well-formed later, with another leader too."""
    refusals, again = 0, 0
    for seed in range(1, 15):
        uuids = set[str]()
        for move in simulate(seed, 250, by_law=False).script.moves:
            if move.kind == "refuse":
                uuids.add(str(move.ids[0]))
                refusals += 1
            again += move.kind == "ask" and move.ids[0] in uuids
    assert min(refusals, again) > 3
