"""A container that is down waits for its action's destination no longer than for a rung."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Phase, PlacementAsk, Stage
from samza_dagster.simulation.hosts import Hold
from tests.unit.placement.scenes import GROUPS, PLACES, QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit

AN_HOUR = 3_600_000
A_RUNG = QUICK.request_timeout_ms
MARGIN = 1_000
"""What the cluster has beyond its own expiry."""


def downtime(world: Scene, processor_id: str) -> int:
    """How long the container is down from now on."""
    world.until(lambda: world.phases()[processor_id] is not Phase.RUNNING)
    since = world.now_ms
    world.until_phase(processor_id, Phase.RUNNING)
    return world.now_ms - since


def moving(processor_id: str = "0", *, expiry_ms: int = AN_HOUR) -> Scene:
    """A move to a host without room, which waits for it for long."""
    world = running(limits=QUICK)
    world.fill("host-3")
    world.submit(ask(processor_id, "host-3", expiry_ms=expiry_ms))
    world.lag("0-0", 0, 0)
    return world


def expired(processor_id: str = "0") -> tuple[str, str]:
    return ("FAILED", texts.expired_while_down("no host has room", processor_id))


def test_one_that_dies_while_its_destination_is_full_goes_home_within_a_rung() -> None:
    """Home has room."""
    world = moving()
    world.crash("0")
    assert downtime(world, "0") <= A_RUNG
    assert world.placed("0") == "host-1"
    assert world.outcome() == expired()


def test_one_whose_host_is_lost_meanwhile_takes_its_standbys_place_within_a_rung() -> None:
    """Its own past may have to end first, as after any loss of a host."""
    world = moving()
    world.lose("host-1")
    since = world.now_ms
    world.until(lambda: world.group().failover is not None)
    assert world.now_ms - since <= A_RUNG
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"
    assert world.outcome() == expired()


def test_a_request_that_has_less_time_left_ends_when_it_would_have() -> None:
    """A rung is the most that is added, nothing is given."""
    world = moving(expiry_ms=A_RUNG - 2_000)
    world.crash("0")
    assert downtime(world, "0") == A_RUNG - 2_000


def test_the_cluster_is_told_of_the_shorter_time() -> None:
    """So it says why, and no process is waited for that is to be ready before a stop."""
    world = moving()
    world.crash("0")
    world.log.clear()
    world.until(lambda: world.phases()["0"] is not Phase.RUNNING)
    said = world.sent(cmd.RequestResource)
    assert [(r.host, r.expires_in_ms, r.ahead) for r in said] == [("host-3", A_RUNG, False)]
    action = world.group().action
    assert action is not None
    assert action.reservation is not None
    assert action.reservation.request_id == said[0].request_id


def stolen(world: Scene, host: str) -> None:
    """Another job is quicker to take the room."""
    memory, cores = world.hosts[host].free()
    if memory and cores:
        name = f"thief-{len(world.hosts[host].ledger)}"
        world.hosts[host].ledger[name] = Hold(memory, cores, name)


@pytest.mark.parametrize("asked", ["STANDBY", "fail-over"])
def test_an_active_of_which_the_standbys_place_is_stolen(asked: str) -> None:
    """It dies after its standby gave way: home again within a rung."""
    wish: PlacementAsk = ask("0", "STANDBY", expiry_ms=AN_HOUR)
    if asked == "fail-over":
        wish = own(AskKind.FAIL_OVER, "0", expiry_ms=AN_HOUR)
    world = running(limits=QUICK, groups=GROUPS, places=PLACES)
    world.submit(wish)
    world.until_stage(Stage.STOPPING_STANDBY)
    world.until(lambda: world.where("0-0") is None)
    stolen(world, "host-2")
    world.until_stage(Stage.RESERVING)
    stolen(world, "host-2")
    world.crash("0")
    assert downtime(world, "0") <= A_RUNG
    assert world.placed("0") == "host-1"
    assert world.outcome() == expired()


def test_one_that_dies_before_its_standby_has_given_way_asks_for_no_longer() -> None:
    """The reservation begins after its death."""
    world = running(limits=QUICK)
    world.submit(own(AskKind.FAIL_OVER, "0", expiry_ms=AN_HOUR))
    world.until_stage(Stage.STOPPING_STANDBY)
    world.crash("0")
    world.until(lambda: world.phases()["0"] is not Phase.RUNNING)
    assert world.stage("0") is Stage.STOPPING_STANDBY
    world.until(lambda: world.where("0-0") is None)
    stolen(world, "host-2")
    world.log.clear()
    world.until_stage(Stage.RESERVING)
    said = [r for r in world.sent(cmd.RequestResource) if r.processor_id == "0"]
    assert [(r.host, r.expires_in_ms) for r in said] == [("host-2", A_RUNG)]
    world.until_phase("0", Phase.RUNNING)
    assert world.outcome() == expired()


def test_a_forced_restart_on_a_host_that_got_full_goes_on_within_a_rung() -> None:
    """It was stopped for it: its standby's place is next."""
    world = running(limits=QUICK)
    world.submit(ask("0", "FORCE_RESTART_LAST_SEEN", expiry_ms=AN_HOUR))
    world.until(lambda: world.where("0") is None)
    stolen(world, "host-1")
    assert downtime(world, "0") <= A_RUNG
    assert world.placed("0") == "host-2"
    assert world.outcome() == ("FAILED", texts.expired("no host has room"))


def test_a_fail_over_that_waits_is_held_back_no_longer() -> None:
    """Its answer comes with the action's end, be it that the ladder was quicker."""
    world = moving()
    world.lose("host-1")
    since = world.now_ms
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u2", at_ms=20, expiry_ms=AN_HOUR))
    world.until(lambda: world.group().failover is not None)
    assert world.now_ms - since <= A_RUNG
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"
    assert world.statuses("u2")[-1] in ("SUCCEEDED", "FAILED")


def test_a_coordinator_that_takes_over_gives_no_more_than_a_rung() -> None:
    """Its time counts anew, the request's own doesn't."""
    world = moving()
    world.crash("0")
    world.until(lambda: world.phases()["0"] is not Phase.RUNNING)
    world.wait(A_RUNG - 1_000)
    world.restart_coordinator()
    since = world.now_ms
    for host in world.hosts:
        world.register(host)
    world.until_phase("0", Phase.RUNNING)
    assert world.now_ms - since <= A_RUNG
    assert world.outcome() == expired()


def test_a_cluster_that_never_answers_is_given_up_a_second_later() -> None:
    """The heart's own clock."""
    world = moving()
    world.crash("0")
    world.until(lambda: world.phases()["0"] is not Phase.RUNNING)
    world.leader.requests.pending.clear()
    world.wait(A_RUNG + MARGIN)
    assert world.statuses()[-1] == "FAILED"
    world.until_phase("0", Phase.RUNNING)
