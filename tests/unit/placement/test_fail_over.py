"""A fail-over on request: onto the standby's host now, the standby finds its own place after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import requests, texts
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import AskKind, Phase, PlacementAsk, Stage
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.judges.violation import ACTED_ONCE, InvariantViolated
from tests.unit.placement.scenes import QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit


def failing_over(world: Scene | None = None) -> Scene:
    world = world or running(limits=QUICK)
    world.submit(own(AskKind.FAIL_OVER, "0"))
    return world


def active_down() -> Scene:
    """Its own host is full, and it asks for it all the same."""
    world = running(limits=QUICK)
    world.evict("0")
    return world


# -- of an active that runs ----------------------------------------------------------------


def test_the_standby_is_stopped_at_once() -> None:
    """No place is reserved for it first: that is the difference to STANDBY."""
    world = failing_over()
    assert world.stopped() == ["0-0"]
    assert world.sent(cmd.RequestResource) == []
    assert world.outcome() == ("IN_PROGRESS", texts.STANDBY_STOP_IN_PROGRESS)


def test_the_active_runs_on_until_the_standbys_place_is_held() -> None:
    """Then it is stopped and starts there."""
    world = failing_over()
    world.until_stage(Stage.STOPPING)
    assert world.group().action is not None
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))
    assert world.stopped() == ["0-0", "0"]


def test_the_standby_then_goes_anywhere_legal() -> None:
    """It has no locality until it runs again."""
    world = failing_over()
    world.until_stage(Stage.RESERVING)
    assert "0-0" not in world.locality()
    world.until_all_run()
    assert world.placed("0-0") in ("host-1", "host-3", "host-4")


def test_it_needs_no_third_host() -> None:
    """Two hosts: active and standby change places."""
    world = running(
        {"0": "host-1", "0-0": "host-2"}, groups={"0": ("0", "0-0")}, hosts=("host-1", "host-2")
    )
    failing_over(world)
    world.until_all_run()
    assert (world.placed("0"), world.placed("0-0")) == ("host-2", "host-1")


def test_a_standby_that_survives_its_stop_fails_it() -> None:
    """Active and standby run on where they were."""
    world = running()
    world.trouble("host-2", Trouble.STUBBORN)
    failing_over(world)
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.stop_failed("host-2"))
    assert (world.placed("0"), world.placed("0-0")) == ("host-1", "host-2")


def test_a_standby_whose_host_is_lost_fails_it() -> None:
    """The active isn't stopped."""
    world = failing_over()
    world.lose("host-2")
    assert world.outcome() == ("FAILED", texts.host_lost("host-2"))
    assert "0" not in world.stopped()


def test_a_place_that_is_stolen_fails_it() -> None:
    """The active runs on; the standby starts elsewhere."""
    world = failing_over()
    world.crash("0-0")
    world.fill("host-2")
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.expired("no host has room"))
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.placed("0-0") in ("host-3", "host-4")


def test_a_start_that_fails_sends_it_back() -> None:
    """To its source host."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    failing_over(world)
    world.until_all_run()
    assert world.outcome() == ("FAILED", texts.start_failed("host-2", "host-1"))
    assert world.placed("0") == "host-1"


def test_without_a_standby_it_is_refused() -> None:
    """There is nobody to fail over to."""
    world = running(groups={"0": ("0",)})
    failing_over(world)
    assert world.outcome()[0] == "BAD_REQUEST"


def test_a_standby_can_not_be_failed_over() -> None:
    """Its active is named."""
    world = running()
    world.submit(own(AskKind.FAIL_OVER, "0-0"))
    assert "active-with-standby: 0-0 is a standby; name its active, 0" in world.outcome()[1]


def test_it_is_answered_on_our_own_topic() -> None:
    """Samza's stream never hears of it."""
    world = failing_over()
    world.until_all_run()
    assert all(response.own for response in world.responses())
    assert cmd.DeleteRequest("u1", own=True) in world.log


# -- of an active that is down -------------------------------------------------------------


def test_of_an_active_that_is_down_it_fails_over_at_once() -> None:
    """It doesn't wait for the time of its own host."""
    world = active_down()
    began = world.now_ms
    failing_over(world)
    assert world.group().failover is not None
    world.until_phase("0", Phase.RUNNING)
    assert (world.placed("0"), world.now_ms) == ("host-2", began)
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))


def test_of_an_active_that_is_down_its_open_request_is_given_back() -> None:
    """It can't be in two places."""
    world = active_down()
    [asked] = [r for r in world.sent(cmd.RequestResource) if r.processor_id == "0"]
    failing_over(world)
    assert cmd.ReleaseResource(asked.request_id) in world.log


def test_of_an_active_that_is_down_a_standby_that_lives_on_fails_it() -> None:
    """The active starts on any host, but that isn't what was asked: where it runs, and why there."""
    world = active_down()
    world.trouble("host-2", Trouble.STUBBORN)
    failing_over(world)
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") in ("host-3", "host-4")
    assert world.told("u1")[-2:] == [
        ("IN_PROGRESS", texts.no_place("0-0", "0-0 lives on on host-2 after its stop")),
        (
            "FAILED",
            "failed the ContainerPlacement action because there was no taking the place of 0-0: "
            "0-0 lives on on host-2 after its stop; container 0 was started on host "
            f"{world.placed('0')} instead, and runs there",
        ),
    ]
    assert world.counted()["failed-container-placements-actions"] == 1


def test_of_an_active_that_is_down_the_next_standbys_place_is_as_good() -> None:
    """One survives its stop, the other gives way: SUCCEEDED."""
    world = running(
        {"0": "host-1", "0-0": "host-2", "0-1": "host-3"},
        groups={"0": ("0", "0-0", "0-1")},
        limits=QUICK,
    )
    world.trouble("host-2", Trouble.STUBBORN)
    world.evict("0")
    failing_over(world)
    world.until_phase("0", Phase.RUNNING)
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


def test_while_the_active_starts_it_waits_and_is_told_so() -> None:
    """It may come up after all."""
    world = running()
    world.trouble("host-1", Trouble.NO_CHECK_IN)
    world.crash("0")
    world.until(lambda: world.phases()["0"] is Phase.STARTING)
    failing_over(world)
    assert world.outcome() == ("ACCEPTED", texts.accepted("waits until 0 runs"))
    world.calm("host-1")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))


# -- of one incarnation --------------------------------------------------------------------


def of(execution_id: str, *, uuid: str = "u1", at_ms: int = 10) -> PlacementAsk:
    """A fail-over that names the incarnation of 0 that it is about."""
    return replace(own(AskKind.FAIL_OVER, "0", uuid=uuid, at_ms=at_ms), execution_id=execution_id)


def failed_over_by_itself() -> tuple[Scene, str]:
    """The host of 0 is lost, and the coordinator fails over; and the incarnation that it was."""
    world = running(limits=QUICK)
    sick = world.execution("0")
    world.lose("host-1")
    assert world.group().failover is not None
    return world, sick


def test_of_the_incarnation_that_runs_it_is_carried_out() -> None:
    """Nothing has happened since somebody looked."""
    world = running()
    world.submit(of(world.execution("0")))
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))


def test_of_an_incarnation_that_has_failed_over_meanwhile_it_moves_nobody() -> None:
    """The healthy active isn't taken onto a standby that has only begun to follow it."""
    world, sick = failed_over_by_itself()
    world.submit(of(sick))
    assert world.outcome() == ("ACCEPTED", texts.accepted("waits until 0 has failed over"))
    world.until_all_run()
    assert world.placed("0") == "host-2"
    assert "0" not in world.stopped()
    status, why = world.outcome()
    assert (status, world.statuses()) == ("FAILED", ["ACCEPTED", "FAILED"])
    assert why == texts.failed_over_already("0", "host-2")


def test_of_any_incarnation_it_is_over_too_once_the_active_has_failed_over() -> None:
    """Whoever asked for a fail-over of 0 has one; each of those who wait is told."""
    world, _ = failed_over_by_itself()
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u1"))
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u2", at_ms=11))
    world.submit(ask("0", "host-4", uuid="u3", at_ms=12))
    world.until_all_run()
    for uuid in ("u1", "u2"):
        assert world.outcome(uuid) == ("FAILED", texts.failed_over_already("0", "host-2"))
    assert world.outcome("u3") == ("SUCCEEDED", texts.started("host-4"))


def test_a_heart_that_fails_an_active_over_that_has_just_done_so_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No fail-over that waited for it begins after its check-in; one asked for since may."""

    def forgets(_draft: Draft, _group_id: str, _active_id: str) -> None:
        return None

    monkeypatch.setattr(requests, "failed_over_already", forgets)
    world, _ = failed_over_by_itself()
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u1"))
    with pytest.raises(InvariantViolated, match=f"{ACTED_ONCE}.*0 had failed over by itself"):
        world.until_all_run()
    monkeypatch.undo()
    world, _ = failed_over_by_itself()
    world.until_all_run()
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u2"))
    world.until_all_run()
    assert world.outcome("u2")[0] == "SUCCEEDED"


def test_an_active_that_didnt_fail_over_after_all_is_failed_over_on_request() -> None:
    """Its host came back with it: it is the incarnation that looked sick, and there is a standby."""
    world = running(
        {"0": "host-1", "0-0": "host-2", "0-1": "host-3"},
        groups={"0": ("0", "0-0", "0-1")},
        limits=QUICK,
    )
    sick = world.execution("0")
    world.lose("host-1")
    world.submit(of(sick))
    world.come_back("host-1")
    assert world.execution("0") == sick
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-3"))


def test_of_an_incarnation_that_has_a_successor_it_is_refused() -> None:
    """With the rule, who runs by now and what to do; also while its group is busy."""
    world = running()
    sick = world.execution("0")
    world.crash("0")
    world.until_all_run()
    world.submit(of(sick))
    status, why = world.outcome()
    assert status == "BAD_REQUEST"
    for word in ("same-incarnation", sick, f"{world.execution('0')} on host-1", "ask again"):
        assert word in why
    world.submit(ask("0", "host-3", uuid="u2", hold=True))
    world.submit(of(sick, uuid="u3"))
    assert world.statuses("u3") == ["BAD_REQUEST"]
    assert "0" not in world.stopped()


def test_of_an_incarnation_that_is_replaced_while_it_waits_it_fails_at_its_turn() -> None:
    """A move of the same active came first."""
    world = running()
    sick = world.execution("0")
    world.submit(ask("0", "host-3", uuid="u0", at_ms=1))
    world.submit(of(sick))
    world.until_all_run()
    assert world.placed("0") == "host-3"
    assert world.statuses() == ["ACCEPTED", "FAILED"]
    assert f"{world.execution('0')} on host-3" in world.outcome()[1]


def test_of_an_incarnation_that_is_down_it_fails_over_at_once() -> None:
    """Its standby's place is what it needs; not so if another one ran since."""
    world = running(limits=QUICK)
    sick = world.execution("0")
    world.evict("0")
    world.submit(of("demo-0-999999", uuid="u0"))
    status, why = world.outcome("u0")
    assert (status, f"down since {sick} on host-1" in why) == ("BAD_REQUEST", True)
    world.submit(of(sick))
    world.until_phase("0", Phase.RUNNING)
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))


def test_a_queue_remembers_the_incarnation_over_a_take_over() -> None:
    """The next leader is as careful."""
    world, sick = failed_over_by_itself()
    world.submit(of(sick))
    world.restart_coordinator()
    assert [queued.execution_id for queued in world.group().queue] == [sick]
