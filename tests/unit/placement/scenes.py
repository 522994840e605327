"""Worlds to begin a specification with."""

from __future__ import annotations

from samza_dagster.placement.state import Limits, PlacementAsk
from tests.unit.placement.world import World

HOSTS = ("host-1", "host-2", "host-3", "host-4")
GROUPS = {"0": ("0", "0-0"), "1": ("1", "1-0")}
PLACES = {"0": "host-1", "0-0": "host-2", "1": "host-3", "1-0": "host-4"}


def running(
    places: dict[str, str] | None = None,
    *,
    groups: dict[str, tuple[str, ...]] | None = None,
    hosts: tuple[str, ...] = HOSTS,
    limits: Limits | None = None,
) -> World:
    """A job that runs, each processor where `places` says."""
    world = World.of(hosts)
    for host in hosts:
        world.register(host)
    world.deploy(groups or GROUPS, last_seen=PLACES if places is None else places, limits=limits)
    world.settle()
    world.emitted.clear()
    return world


def ask(
    processor_id: str,
    destination: str,
    *,
    uuid: str = "u1",
    at_ms: int = 10,
    deployment_id: str = "run-1",
    expiry_ms: int | None = None,
) -> PlacementAsk:
    return PlacementAsk(uuid, deployment_id, processor_id, destination, at_ms, expiry_ms)
