"""Reserve now, move later: hold and commit."""

from __future__ import annotations

import pytest

from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Stage
from tests.unit.placement.scenes import HOSTS, QUICK, ask, held, running

pytestmark = pytest.mark.unit

COMMIT = AskKind.COMMIT


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
    assert world.nobody_was_touched()


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
    assert world.control(COMMIT)[0] == "BAD_REQUEST"
    assert "0" not in world.stopped()


@pytest.mark.parametrize("word", ["STANDBY", "FORCE_RESTART_LAST_SEEN"])
def test_what_reserves_nothing_first_can_not_be_held(word: str) -> None:
    """Refused with what can."""
    world = running()
    world.submit(ask("0", word, hold=True))
    assert world.outcome()[0] == "BAD_REQUEST"
    assert f"reserves-first: {word} reserves nothing to hold" in world.outcome()[1]


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
    assert world.control(COMMIT) == ("SUCCEEDED", texts.committed("u1"))
    assert world.stopped() == ["0"]
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


def test_a_commit_before_the_reservation_is_held_counts_too() -> None:
    """It then isn't held at all."""
    world = running()
    world.submit(ask("0", "host-3", hold=True))
    assert world.control(COMMIT)[0] == "SUCCEEDED"
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"
    assert not any("waits for commit" in message for _, message in world.told("u1"))


def test_a_commit_of_what_waits_in_the_queue_is_refused() -> None:
    """Nobody knows yet whether there will be anything to commit."""
    world = running()
    world.submit(ask("0-0", "host-4", uuid="u0"))
    world.submit(ask("0", "host-3", hold=True))
    status, message = world.control(COMMIT)
    assert status == "BAD_REQUEST"
    assert message == texts.bad_request(
        "reserved-before-commit: request u1 is queued; commit it once it is reserved"
    )


@pytest.mark.parametrize("hold", [False, True])
def test_a_commit_of_what_waits_for_none_is_refused(hold: bool) -> None:
    """A plain move, or one that was committed and is under way."""
    world = held() if hold else running()
    if hold:
        world.control(COMMIT)
        status, message = world.control(COMMIT, uuid="c2")
    else:
        world.submit(ask("0", "host-3"))
        status, message = world.control(COMMIT)
    assert status == "BAD_REQUEST"
    change = "wait for its end" if hold else "ask with hold for one that waits"
    stage = "stopping" if hold else "reserving"
    assert message == texts.bad_request(
        f"held-for-commit: request u1 is {stage}, it waits for no commit; {change}"
    )
