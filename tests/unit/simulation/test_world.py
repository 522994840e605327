"""The virtual world keeps the promises of agents, cluster and brokers, and breaks them on request."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Limits, PlacementAsk
from tests.simulation.coordinators import ProcessState
from tests.simulation.hosts import Life
from tests.simulation.moves import Move
from tests.simulation.setup import Setup, skewed
from tests.simulation.steps import replace_leader
from tests.simulation.world import World

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3", "host-4")
GROUPS = {"0": ("0", "0-0"), "1": ("1", "1-0")}
PLACES = {"0": "host-1", "0-0": "host-2", "1": "host-3", "1-0": "host-4"}


def running(places: Mapping[str, str] = PLACES, limits: Limits | None = None) -> World:
    world = World.of(HOSTS)
    for host in HOSTS:
        world.register(host)
    world.deploy(GROUPS, last_seen=places, limits=limits)
    world.settle()
    return world


def did(world: World, kind: str, *ids: str | int) -> None:
    assert world.do(Move(kind, ids)), f"{kind} {ids} isn't possible"


def process(world: World, processor_id: str):
    return next(p for p in world.processes() if p.processor_id == processor_id)


def life(world: World, processor_id: str) -> Life:
    return world.entry(processor_id).life


@pytest.mark.parametrize("how", ["suspend", "pause"])
def test_a_frozen_container_outlives_its_lease_until_it_thaws(how: str) -> None:
    """Nobody can kill it while nothing runs; then the warden is first."""
    world = running(limits=Limits(host_timeout_ms=10_000, lease_ms=15_000))
    did(world, "freeze", "host-1", how)
    did(world, "wait", 40_000)
    assert process(world, "0").frozen
    did(world, "thaw", "host-1")
    assert process(world, "0").frozen
    did(world, "wait", 1)
    assert "host-1" not in {p.host for p in world.processes()}


def test_whoever_takes_over_may_die_between_its_first_commands() -> None:
    """The one after it says them again: nothing is forgotten."""
    world = running()
    world.emitted = []
    did(world, "kill", "host-1", "0")
    did(world, "deliver", "host-1", 0)
    did(world, "kill-leader")
    did(world, "crash-heir", 0, 0)
    did(world, "take-over")
    assert world.sent(cmd.RequestResource)
    assert not world.leader.requests.pending
    assert world.leader.standing is ProcessState.DEAD
    did(world, "take-over")
    assert world.led()
    world.settle()
    assert world.where("0") is not None


def test_a_zombies_commands_reach_only_hosts_that_follow_it() -> None:
    """What it had committed may arrive late, but not where a newer leader is known."""
    world = running()
    did(world, "pause", 0)
    world.submit(PlacementAsk("u1", "run-1", "0", "host-3", 10))
    assert world.leader.unsent
    did(world, "take-over")
    did(world, "register", "host-3")
    did(world, "wake-old")
    assert world.leader.epoch == 2
    did(world, "end-old")
    world.settle()
    assert world.responses_to("u1")[-1][0] == "SUCCEEDED"


def test_no_job_model_is_released_without_a_lease_or_beside_another_process() -> None:
    """Both conditions of the agent."""
    world = running()
    entry = world.entry("0")
    host = world.hosts["host-1"]
    entry.life = Life.LAUNCHED
    assert host.may_release(world.true_ms, entry)
    host.grant = None
    assert not host.may_release(world.true_ms, entry)
    host.grant = host.clock.asked(world.true_ms, 1, 1_000)
    neighbour = world.entry("0-0")
    host.journal = {neighbour.execution_id: neighbour, **host.journal}
    assert not host.may_release(world.true_ms, entry)


def test_a_fork_goes_its_own_way() -> None:
    """Nothing that happens to a copy happens to the world."""
    world = running()
    before = world.canonical()
    other = world.fork()
    assert other.canonical() == before
    did(other, "kill", "host-1", "0")
    other.settle()
    assert world.canonical() == before
    assert world.true_ms <= other.true_ms


def test_a_canonical_form_knows_no_epochs_and_no_times() -> None:
    """Two histories that lead to the same place are the same there."""
    world = running()
    before = world.canonical()
    did(world, "kill-leader")
    world.settle()
    did(world, "wait", 100)
    assert world.leader.epoch == 2
    assert world.canonical() == before


def test_every_move_that_is_due_is_possible() -> None:
    """No label is given out that its world refuses."""
    world = running()
    world.submit(PlacementAsk("u1", "run-1", "0", "host-3", 10))
    for _ in range(40):
        for move in (*world.moves(), *world.faults()):
            assert world.fork().do(move), move
        if not world.moves():
            break
        world.do(world.moves()[0])


def test_whoever_takes_over_has_its_machines_clock_and_no_earlier_time_than_the_jobs() -> None:
    """As `LeaderClock.go_on_from` has it; hosts' wall clocks are wrong by as much."""
    world = Setup(hosts=2, slots=4, layout="0", skews=(150_000, -150_000)).build()
    began_ms = world.now_ms
    ahead, behind = (host.clock.wall_offset for host in world.hosts.values())
    assert ahead - behind == 300_000
    replace_leader(world)
    assert world.now_ms == began_ms
    replace_leader(world)
    assert world.now_ms == began_ms + 150_000


def test_half_of_the_seeds_have_wrong_clocks_and_a_script_holds_them() -> None:
    """A script from before has none."""
    setup = Setup(hosts=3, slots=4, layout="0")
    assert skewed(setup, 1) == setup
    wrong = skewed(setup, 4)
    assert any(wrong.skews)
    assert skewed(setup, 4) == wrong == Setup.from_json(wrong.to_json())
    older = {name: value for name, value in setup.to_json().items() if name != "skews"}
    assert Setup.from_json(older) == setup
