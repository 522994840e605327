"""Cancel and release: what was begun is let go, as long as it isn't too late."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
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
    seen = "0 was told to stop" if stage is Stage.STOPPING else "0 starts on host-3"
    assert message == texts.bad_request(
        f"not-yet-touched: request u1 is {stage}: too late, {seen}; "
        "ask to move 0 back once it has ended"
    )
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"


def test_a_cancel_while_a_standby_gives_way_says_that_the_standby_was_told_to_stop() -> None:
    """No container is down yet, and the active isn't touched at all."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.STOPPING_STANDBY)
    assert world.control(CANCEL) == (
        "BAD_REQUEST",
        texts.bad_request(
            "not-yet-touched: request u1 is stopping-standby: too late, 0-0 was told to stop; "
            "ask to move 0 back once it has ended"
        ),
    )


START, STOP, PLACE = AskKind.START_STANDBY, AskKind.STOP_STANDBY, AskKind.PLACE
TOLD = "was told to stop"
LATE = [
    (START, "0", "host-3", Stage.STARTING, "0-1 starts on host-3", "ask to stop 0-1 once it runs"),
    (STOP, "0-0", "", Stage.STOPPING, f"0-0 {TOLD}", "ask for another standby once it has ended"),
    (PLACE, "0", "LAST_SEEN", Stage.STOPPING, f"0 {TOLD}", "wait until 0 runs again where it was"),
]


@pytest.mark.parametrize(("kind", "pid", "destination", "stage", "seen", "change"), LATE)
def test_a_cancel_that_is_too_late_names_the_change_that_undoes_it(
    kind: AskKind, pid: str, destination: str, stage: Stage, seen: str, change: str
) -> None:
    """Each kind of request has its own way back."""
    world = running()
    world.submit(own(kind, pid, destination))
    world.until_stage(stage)
    assert world.control(CANCEL)[1] == texts.bad_request(
        f"not-yet-touched: request u1 is {stage}: too late, {seen}; {change}"
    )


def test_a_cancel_of_what_is_on_its_way_back_says_that_it_has_failed() -> None:
    """Its outcome stands; nobody is left to cancel."""
    world = running()
    world.trouble("host-3", Trouble.NO_START)
    world.submit(ask("0", "host-3"))
    world.until_stage(Stage.FALLBACK_SOURCE)
    message = world.control(CANCEL)[1]
    assert "request u1 is fallback-source: too late, it has FAILED and 0 is led back" in message
    assert message.endswith("; wait until 0 runs")


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_what_has_ended_or_never_was_is_refused(kind: AskKind) -> None:
    """The first outcome stands."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_all_run()
    for uuid, of in (("c1", "u1"), ("c2", "u9")):
        assert world.control(kind, uuid=uuid, of=of)[1] == texts.bad_request(
            f"request-under-way: request {of} is neither queued nor in flight; "
            "name one that is, or ask anew"
        )
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_a_control_that_comes_twice_is_taken_once(kind: AskKind) -> None:
    """Its uuid is remembered like any other."""
    world = held()
    first = world.control(kind)
    assert world.do(Move("reread", ("c1",)))
    world.until(lambda: not world.leader.unread)
    assert world.told("c1") == [first]
