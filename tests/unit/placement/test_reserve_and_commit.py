"""Reserve now, move later, or let it go: hold, commit, release and cancel."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Phase, Stage
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, ask, held, running

pytestmark = pytest.mark.unit

COMMIT, RELEASE, CANCEL = AskKind.COMMIT, AskKind.RELEASE, AskKind.CANCEL


# -- hold ----------------------------------------------------------------------------------


def test_a_held_reservation_says_where_and_until_when() -> None:
    """The container runs on."""
    world = held()
    assert world.outcome() == ("IN_PROGRESS", texts.held("host-3", 20_000))
    assert world.stopped() == []
    assert list(world.held_resources().values()) == ["host-3"]


def test_a_hold_survives_its_coordinator_and_has_its_whole_time_again() -> None:
    """The reservation is on the host's books; the time away is nobody's fault."""
    world = held()
    world.wait(15_000)
    world.restart_coordinator()
    restarted_at = world.now_ms
    for host in HOSTS:
        world.register(host)
    assert world.stage("0") is Stage.HELD
    assert list(world.held_resources().values()) == ["host-3"]
    world.until_stage(None)
    assert world.now_ms == restarted_at + 20_000


def test_a_stop_of_what_had_died_by_itself_makes_a_cancel_no_later() -> None:
    """Its host registered before it had forgotten it: that stop was no action's."""
    world = running()
    world.submit(ask("0", "host-3"))
    died = world.execution("0")
    world.crash("0")
    world.until_phase("0", Phase.WAITING)
    world.register("host-1")
    assert cmd.StopContainer("0", died, "host-1") in world.log
    assert world.stage("0") is Stage.RESERVING
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.given_up_while_down("cancelled", "0"))
    world.until_all_run()
    assert world.placed("0") == "host-1"


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_a_control_that_comes_twice_is_taken_once(kind: AskKind) -> None:
    """Its uuid is remembered like any other."""
    world = held()
    first = world.control(kind)
    assert world.do(Move("reread", ("c1",)))
    world.until(lambda: not world.leader.unread)
    assert world.told("c1") == [first]
