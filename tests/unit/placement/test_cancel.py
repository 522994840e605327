"""Cancel and release: what was begun is let go, as long as it isn't too late."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Phase, Stage
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import ask, held, own, running

pytestmark = pytest.mark.unit

COMMIT, RELEASE, CANCEL = AskKind.COMMIT, AskKind.RELEASE, AskKind.CANCEL


@pytest.mark.parametrize(("kind", "text"), [(RELEASE, texts.RELEASED), (CANCEL, texts.CANCELLED)])
def test_what_is_held_can_be_let_go(kind: AskKind, text: str) -> None:
    """The reservation is given back, the container never knew."""
    world = held()
    assert world.control(kind) == ("SUCCEEDED", texts.ended_for("u1", released=kind is RELEASE))
    assert world.outcome() == ("FAILED", text)
    world.until(lambda: not world.moves())
    assert world.nobody_was_touched()


@pytest.mark.parametrize("kind", [RELEASE, CANCEL])
def test_what_is_only_asked_for_can_be_let_go(kind: AskKind) -> None:
    """Also when the allocation is on its way."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert world.control(kind)[0] == "SUCCEEDED"
    assert world.outcome()[0] == "FAILED"
    world.until(lambda: not world.moves())
    assert world.nobody_was_touched()


def test_a_queued_request_is_taken_out_of_the_queue() -> None:
    """FAILED; what is before it goes on."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u0"))
    world.submit(ask("0", "host-4"))
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.dropped("cancelled"))
    world.until_all_run()
    assert world.outcome("u0")[0] == "SUCCEEDED"
    assert world.placed("0") == "host-3"


def test_a_released_request_in_the_queue_says_so() -> None:
    """The word of who let it go."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u0"))
    world.submit(ask("0", "host-4", hold=True))
    assert world.control(RELEASE)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.dropped("released"))


def test_a_standby_that_is_only_asked_for_is_never_there() -> None:
    """Cancel of a start on request."""
    world = running()
    world.submit(own(AskKind.START_STANDBY, "0", "host-3"))
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.CANCELLED)
    world.until(lambda: not world.moves())
    assert world.nobody_was_touched()
    assert "0-1" not in world.phases()


def test_a_swap_is_let_go_while_a_place_for_the_standby_is_sought() -> None:
    """Nobody was stopped yet."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    world.until(lambda: not world.moves())
    assert world.nobody_was_touched()


def test_a_swap_whose_standby_has_moved_says_so_when_it_is_let_go() -> None:
    """The active runs on untouched; it would be untrue that nothing was stopped."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.RESERVING)
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.given_up_after_standby("cancelled", "0-0"))
    world.until_all_run()
    assert world.stopped() == ["0-0"]
    assert world.placed("0") == "host-1"


def test_one_that_died_meanwhile_is_not_said_to_run_when_its_move_is_let_go() -> None:
    """It is on its way back to its source."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.crash("0")
    world.until_phase("0", Phase.WAITING)
    assert world.control(CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.given_up_while_down("cancelled", "0"))
    world.until_all_run()
    assert world.placed("0") == "host-1"


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


@pytest.mark.parametrize("stage", [Stage.STOPPING, Stage.STARTING])
@pytest.mark.parametrize("kind", [RELEASE, CANCEL])
def test_once_the_container_is_stopped_it_is_too_late(stage: Stage, kind: AskKind) -> None:
    """BAD_REQUEST; the move goes on to its end."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_stage(stage)
    status, message = world.control(kind)
    assert status == "BAD_REQUEST"
    assert f"request u1 is {stage}: too late" in message
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_what_has_ended_or_never_was_is_refused(kind: AskKind) -> None:
    """The first outcome stands."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_all_run()
    assert "neither queued nor in flight" in world.control(kind)[1]
    assert "neither queued nor in flight" in world.control(kind, uuid="c2", of="u9")[1]
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_a_control_that_comes_twice_is_taken_once(kind: AskKind) -> None:
    """Its uuid is remembered like any other."""
    world = held()
    first = world.control(kind)
    assert world.do(Move("reread", ("c1",)))
    world.until(lambda: not world.leader.unread)
    assert world.told("c1") == [first]
