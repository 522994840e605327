"""Deployments, unexpected ends, and starts that do not come about."""

from __future__ import annotations

import re

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import GROUPS, PLACES, ask, fresh, running

pytestmark = pytest.mark.unit


def test_a_first_deployment_starts_everything_on_legal_hosts() -> None:
    """No locality, no preferred host."""
    world = fresh()
    world.deploy(GROUPS)
    assert all(request.host is None for request in world.sent(cmd.RequestResource))
    world.settle()
    assert set(world.phases().values()) == {Phase.RUNNING}
    assert world.where("0") != world.where("0-0")


def test_processors_ask_for_their_last_seen_host_first() -> None:
    """There their state is."""
    world = fresh()
    world.deploy(GROUPS, last_seen=PLACES)
    world.settle()
    assert {pid: world.where(pid) for pid in PLACES} == PLACES


def test_a_preferred_host_that_has_no_room_becomes_any_legal_host() -> None:
    """Host 1 is full; the host of the standby, which doesn't run yet, stays out."""
    world = fresh()
    world.fill("host-1")
    world.trouble("host-2", Trouble.NO_CHECK_IN)
    world.deploy({"0": ("0", "0-0")}, last_seen=PLACES)
    world.until_phase("0", Phase.RUNNING)
    assert world.where("0") in ("host-3", "host-4")


def test_with_host_affinity_off_any_host_will_do() -> None:
    """`job.host-affinity.enabled=false`."""
    world = fresh()
    world.deploy(GROUPS, last_seen=PLACES, limits=Limits(host_affinity=False))
    assert all(request.host is None for request in world.sent(cmd.RequestResource))


def test_starts_are_staggered_actives_first() -> None:
    """Never more than the limit between request and check-in."""
    world = fresh()
    world.deploy(GROUPS, limits=Limits(max_concurrent_starts=2))
    busy = (Phase.REQUESTING, Phase.RESERVED, Phase.STARTING)
    assert {pid for pid, phase in world.phases().items() if phase in busy} == {"0", "1"}
    while world.moves():
        world.next_move()
        assert sum(phase in busy for phase in world.phases().values()) <= 2
    assert set(world.phases().values()) == {Phase.RUNNING}


def test_a_processor_that_no_host_can_take_holds_nobody_up() -> None:
    """One host: no standby can start, every active does."""
    world = fresh(("host-1",))
    groups = {str(n): (str(n), f"{n}-0") for n in range(3)}
    world.deploy(groups, limits=Limits(max_concurrent_starts=1))
    world.until(lambda: all(world.phases()[str(n)] is Phase.RUNNING for n in range(3)))
    assert all(world.where(f"{n}-0") is None for n in range(3))


def test_what_can_not_be_placed_is_asked_for_again_in_good_time() -> None:
    """Not in a busy loop: once a request time-out."""
    world = fresh(("host-1",))
    world.deploy({"0": ("0", "0-0")})
    world.until(lambda: world.phases()["0"] is Phase.RUNNING)
    began, asked = world.now_ms, len(world.sent(cmd.RequestResource))
    world.until(lambda: world.now_ms >= began + 60_000, limit=5_000)
    assert len(world.sent(cmd.RequestResource)) - asked <= 12


def test_execution_ids_and_epochs_never_repeat_and_are_safe_in_paths() -> None:
    """Whatever the job is called."""
    world = fresh(job="my job/ä")
    world.deploy(GROUPS)
    world.settle()
    world.submit(ask("0", "LAST_SEEN"))
    world.settle()
    started = world.sent(cmd.StartContainer)
    assert len({start.execution_id for start in started}) == len(started) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", start.execution_id) for start in started)
    assert started[-1].execution_id.endswith("-0-000005")


def test_a_dead_container_is_forgotten_and_its_resource_given_back() -> None:
    """Once its end was handled."""
    world = running()
    entry = world.entry("0")
    world.crash("0")
    world.settle()
    assert cmd.ForgetContainer(entry.execution_id, "host-1") in world.log
    assert entry.execution_id not in world.hosts["host-1"].books


def test_failed_starts_are_tried_ever_more_slowly() -> None:
    """Every host fails: pauses grow to their bound."""
    world = fresh(("host-1",))
    world.trouble("host-1", Trouble.NO_START)
    world.deploy({"0": ("0",)})
    world.until(lambda: world.now_ms > 600_000, limit=20_000)
    assert len(world.sent(cmd.StartContainer)) < 120


def test_nothing_is_due_when_everything_runs() -> None:
    """An idle job wakes nobody."""
    assert next_deadline_ms(running().state) is None


def test_a_deployment_told_twice_changes_nothing() -> None:
    """The event may come again."""
    world = running()
    before = world.state
    world.deploy(GROUPS, last_seen=PLACES)
    assert world.state == before
