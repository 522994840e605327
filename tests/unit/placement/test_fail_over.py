"""A fail-over on request: onto the standby's host now, the standby finds its own place after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import requests, texts
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import AskKind, Phase, PlacementAsk
from samza_dagster.simulation.judges.violation import ACTED_ONCE, InvariantViolated
from tests.unit.placement.scenes import QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit


def failing_over(world: Scene | None = None) -> Scene:
    world = world or running(limits=QUICK)
    world.submit(own(AskKind.FAIL_OVER, "0"))
    return world


# -- of an active that runs ----------------------------------------------------------------


def test_it_needs_no_third_host() -> None:
    """Two hosts: active and standby change places."""
    world = running(
        {"0": "host-1", "0-0": "host-2"}, groups={"0": ("0", "0-0")}, hosts=("host-1", "host-2")
    )
    failing_over(world)
    world.until_all_run()
    assert (world.placed("0"), world.placed("0-0")) == ("host-2", "host-1")


def test_it_is_answered_on_our_own_topic() -> None:
    """Samza's stream never hears of it."""
    world = failing_over()
    world.until_all_run()
    assert all(response.own for response in world.responses())
    assert cmd.DeleteRequest("u1", own=True) in world.log


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
