"""Reserve now, move later: hold, commit, release; and cancel, as long as it isn't too late."""

from __future__ import annotations

import pytest

from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Phase, Stage
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit

COMMIT, RELEASE, CANCEL = AskKind.COMMIT, AskKind.RELEASE, AskKind.CANCEL


def held(destination: str = "host-3", *, expiry_ms: int | None = 20_000) -> Scene:
    """A move whose destination is reserved and waits for its commit."""
    world = running(limits=QUICK)
    world.submit(ask("0", destination, hold=True, expiry_ms=expiry_ms))
    world.until_stage(Stage.HELD)
    return world


def control(world: Scene, kind: AskKind, *, uuid: str = "c1", of: str = "u1") -> tuple[str, str]:
    world.submit(own(kind, "0", uuid=uuid, refers_to=of))
    return world.outcome(uuid)


def untouched(world: Scene) -> bool:
    return world.stopped() == [] and world.started() == [] and world.held_resources() == {}


# -- hold ----------------------------------------------------------------------------------


def test_a_held_reservation_says_where_and_until_when() -> None:
    """The container runs on."""
    world = held()
    assert world.outcome() == ("IN_PROGRESS", texts.held("host-3", 20_000))
    assert world.stopped() == []
    assert list(world.held_resources().values()) == ["host-3"]


def test_a_hold_that_nobody_commits_is_let_go() -> None:
    """After its expiry, counted from when it was held."""
    world = held()
    began = world.now_ms
    world.until_stage(None)
    assert world.now_ms == began + 20_000
    assert world.outcome() == ("FAILED", texts.hold_expired("host-3"))
    world.until(lambda: not world.moves())
    assert untouched(world)


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


def test_a_container_that_dies_while_its_destination_is_held_goes_home() -> None:
    """Nobody said go: FAILED, the reservation given back."""
    world = held()
    world.crash("0")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.died_before("0"))
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.held_resources() == {}


def test_a_destination_that_is_lost_while_it_is_held_fails_it() -> None:
    """Nothing is stopped for a reservation that nobody answers for."""
    world = held()
    world.lose("host-3")
    assert world.outcome() == ("FAILED", texts.host_lost("host-3"))
    assert control(world, COMMIT)[0] == "BAD_REQUEST"
    assert "0" not in world.stopped()


@pytest.mark.parametrize("word", ["STANDBY", "FORCE_RESTART_LAST_SEEN"])
def test_what_reserves_nothing_first_can_not_be_held(word: str) -> None:
    """Refused with what can."""
    world = running()
    world.submit(ask("0", word, hold=True))
    assert world.outcome()[0] == "BAD_REQUEST"
    assert f"{word} reserves nothing to hold" in world.outcome()[1]


def test_an_active_that_needs_the_standby_that_is_held_for_takes_it() -> None:
    """A failover goes before a plan: the standby's hold ends FAILED."""
    world = running(limits=QUICK)
    world.submit(ask("0-0", "host-3", hold=True, expiry_ms=60_000))
    world.until_stage(Stage.HELD)
    world.evict("0")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.standby_needed("0"))
    world.until_all_run()
    assert world.placed("0") == "host-2"


# -- commit --------------------------------------------------------------------------------


def test_a_commit_is_done_at_once_and_the_move_goes_on() -> None:
    """Two outcomes: the commit's and the move's."""
    world = held()
    assert control(world, COMMIT) == ("SUCCEEDED", texts.committed("u1"))
    assert world.stopped() == ["0"]
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


def test_a_commit_before_the_reservation_is_held_counts_too() -> None:
    """It then isn't held at all."""
    world = running()
    world.submit(ask("0", "host-3", hold=True))
    assert control(world, COMMIT)[0] == "SUCCEEDED"
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"
    assert not any("waits for commit" in message for _, message in world.told("u1"))


def test_a_commit_of_what_waits_in_the_queue_is_refused() -> None:
    """Nobody knows yet whether there will be anything to commit."""
    world = running()
    world.submit(ask("0-0", "host-4", uuid="u0"))
    world.submit(ask("0", "host-3", hold=True))
    status, message = control(world, COMMIT)
    assert status == "BAD_REQUEST"
    assert "request u1 is queued; commit it once it is reserved" in message


@pytest.mark.parametrize("hold", [False, True])
def test_a_commit_of_what_waits_for_none_is_refused(hold: bool) -> None:
    """A plain move, or one that was committed and is under way."""
    world = held() if hold else running()
    if hold:
        control(world, COMMIT)
        status, message = control(world, COMMIT, uuid="c2")
    else:
        world.submit(ask("0", "host-3"))
        status, message = control(world, COMMIT)
    assert status == "BAD_REQUEST"
    assert "it waits for no commit" in message


# -- release and cancel --------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "text"), [(RELEASE, texts.RELEASED), (CANCEL, texts.CANCELLED)])
def test_what_is_held_can_be_let_go(kind: AskKind, text: str) -> None:
    """The reservation is given back, the container never knew."""
    world = held()
    assert control(world, kind) == ("SUCCEEDED", texts.ended_for("u1", kind.value))
    assert world.outcome() == ("FAILED", text)
    world.until(lambda: not world.moves())
    assert untouched(world)


@pytest.mark.parametrize("kind", [RELEASE, CANCEL])
def test_what_is_only_asked_for_can_be_let_go(kind: AskKind) -> None:
    """Also when the allocation is on its way."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert control(world, kind)[0] == "SUCCEEDED"
    assert world.outcome()[0] == "FAILED"
    world.until(lambda: not world.moves())
    assert untouched(world)


def test_a_queued_request_is_taken_out_of_the_queue() -> None:
    """FAILED; what is before it goes on."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u0"))
    world.submit(ask("0", "host-4"))
    assert control(world, CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.CANCELLED)
    world.until_all_run()
    assert world.outcome("u0")[0] == "SUCCEEDED"
    assert world.placed("0") == "host-3"


def test_a_released_request_in_the_queue_says_so() -> None:
    """The word of who let it go."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u0"))
    world.submit(ask("0", "host-4", hold=True))
    assert control(world, RELEASE)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.RELEASED)


def test_a_standby_that_is_only_asked_for_is_never_there() -> None:
    """Cancel of a start on request."""
    world = running()
    world.submit(own(AskKind.START_STANDBY, "0", "host-3"))
    assert control(world, CANCEL)[0] == "SUCCEEDED"
    assert world.outcome() == ("FAILED", texts.CANCELLED)
    world.until(lambda: not world.moves())
    assert untouched(world)
    assert "0-1" not in world.phases()


def test_a_swap_is_let_go_while_a_place_for_the_standby_is_sought() -> None:
    """Nobody was stopped yet."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    assert control(world, CANCEL)[0] == "SUCCEEDED"
    world.until(lambda: not world.moves())
    assert untouched(world)


def test_a_swap_whose_standby_has_moved_says_so_when_it_is_let_go() -> None:
    """The active runs on untouched; it would be untrue that nothing was stopped."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.RESERVING)
    assert control(world, CANCEL)[0] == "SUCCEEDED"
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
    assert control(world, CANCEL)[0] == "SUCCEEDED"
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
    status, message = control(world, kind)
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
    assert "neither queued nor in flight" in control(world, kind)[1]
    assert "neither queued nor in flight" in control(world, kind, uuid="c2", of="u9")[1]
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


@pytest.mark.parametrize("kind", [COMMIT, RELEASE, CANCEL])
def test_a_control_that_comes_twice_is_taken_once(kind: AskKind) -> None:
    """Its uuid is remembered like any other."""
    world = held()
    first = control(world, kind)
    assert world.do(Move("reread", ("c1",)))
    world.until(lambda: not world.leader.unread)
    assert world.told("c1") == [first]
