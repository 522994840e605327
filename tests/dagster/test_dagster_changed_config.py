"""A re-execution of a whole run whose config was changed: what of it holds, and what is asked anew."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from placement_runs import execute_job, too_late

from samza_dagster.client.views import HostView
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import NOT_STARTED, SUCCEEDED, SteppedJob

pytestmark = pytest.mark.dagster
DONE = (SUCCEEDED, "done")
MOVE = {"processor": "0", "destination": "host-2"}
VIA = {"processor": "0", "destination": "host-4", "steady_s": 0}


@pytest.fixture(autouse=True)
def _warm(world: SteppedJob) -> None:
    world.lag_now = {"0-1": [3], "0-0": [0]}


def launch(
    instance: dg.DagsterInstance, job: str, config: dict[str, Any], parent: str = ""
) -> tuple[bool, str, str]:
    """A run, or a whole re-execution of one: whether it went well, its id, what failed."""
    with execute_job(
        job,
        instance=instance,
        run_config={"ops": {f"plan_{job}": {"config": config}}},
        reexecution_options=dg.ReexecutionOptions(parent_run_id=parent) if parent else None,
        raise_on_error=False,
    ) as result:
        failures = [
            str(event.step_failure_data.user_failure_data.description)
            for event in result.all_events
            if event.is_step_failure and event.step_failure_data.user_failure_data
        ]
        return result.success, result.run_id, "; ".join(failures)


def test_the_fix_that_a_failed_verification_names_is_heeded(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Idle input: with verify_timeout_s 0 the same move is well, and nothing is asked again."""
    world.processes = False
    done, first, why = launch(instance, "move_container", MOVE)
    assert not done
    assert "re-execute the whole run with verify_timeout_s 0" in why
    done, _, why = launch(instance, "move_container", {**MOVE, "verify_timeout_s": 0}, first)
    assert done, why
    assert world.asked == [("0", "host-2")]


@pytest.mark.longdagster
def test_a_new_expiry_holds_for_what_is_asked_anew(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The first attempt had no room in time."""
    world.ends = [NOT_STARTED]
    _, first, _ = launch(instance, "move_container", {**MOVE, "request_expiry_s": 5})
    assert launch(instance, "move_container", {**MOVE, "request_expiry_s": 50}, first)[0]
    assert [r.request_expiry for r in world.requests.values()] == [5_000, 50_000]


@pytest.mark.longdagster
def test_new_bounds_of_a_standby_s_lag_hold(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """It is as far behind as the first run wouldn't have, and the second one will."""
    world.lag_now = {"0-1": [90_000]}
    ask = {"processor": "0", "destination": "host-4", "steady_s": 0, "catch_up_timeout_s": 1}
    done, first, _ = launch(instance, "spin_up_standby", {**ask, "lag_limit": 10})
    assert not done
    done, _, why = launch(instance, "spin_up_standby", {**ask, "lag_limit": 100_000}, first)
    assert done, why
    assert world.starts == {"0-1": 1}


@pytest.mark.longdagster
def test_a_standby_that_is_to_be_kept_now_is_kept(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The first run, which would have removed it, failed before it gave its place."""
    world.breaks = {"lag": too_late()}
    done, first, _ = launch(instance, "move_via_new_standby", VIA)
    assert not done
    done, _, why = launch(instance, "move_via_new_standby", {**VIA, "keep_standby": True}, first)
    assert done, why
    assert (world.at["0"], world.at["0-1"]) == ("host-4", "host-2")
    assert list(world.kinds.values()) == ["start-standby", "place", "hold"]


@pytest.mark.longdagster
def test_what_becomes_of_a_standby_is_as_the_re_execution_says(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Kept by the first run, removed when the second one fails as well."""
    world.lag_now = {"0-1": [90_000]}
    _, first, _ = launch(instance, "move_via_new_standby", {**VIA, "catch_up_timeout_s": 1})
    assert "0-1" in world.at
    again = {**VIA, "catch_up_timeout_s": 1, "if_it_fails": "remove"}
    done, _, why = launch(instance, "move_via_new_standby", again, first)
    assert not done
    assert "0-1 is removed again" in why
    assert "0-1" not in world.at


@pytest.mark.longdagster
def test_after_the_standby_gave_its_place_the_verification_can_be_waived(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """It is gone, as it was to be: it isn't waited for, nor started again."""
    world.processes = False
    done, first, _ = launch(instance, "move_via_new_standby", VIA)
    assert not done
    asked = list(world.asked)
    done, _, why = launch(instance, "move_via_new_standby", {**VIA, "verify_timeout_s": 0}, first)
    assert done, why
    assert world.asked == asked


@pytest.mark.longdagster
def test_a_standby_that_was_removed_cannot_be_kept_any_more(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The refusal says what goes on with the move; nothing is asked."""
    world.ends = [DONE, DONE, NOT_STARTED]
    _, first, _ = launch(instance, "move_via_new_standby", VIA)
    asked = list(world.asked)
    done, _, why = launch(instance, "move_via_new_standby", {**VIA, "keep_standby": True}, first)
    assert not done
    assert "keep_standby: false" in why
    assert world.asked == asked


@pytest.mark.longdagster
def test_a_standby_that_was_relocated_can_still_be_removed(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """It had left the destination to be kept; the re-execution wants as many as before."""
    world.ends = [DONE, DONE, NOT_STARTED]
    _, first, _ = launch(instance, "move_via_new_standby", {**VIA, "keep_standby": True})
    assert world.at["0-1"] == "host-2"
    for _ in range(2):  # and once more with nothing left to ask
        done, _, why = launch(instance, "move_via_new_standby", VIA, first)
        assert done, why
    assert world.at == {"0": "host-4", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}
    assert list(world.kinds.values()) == ["start-standby", "place", "hold", "stop-standby", "hold"]


@pytest.mark.longdagster
@pytest.mark.parametrize("other", ["host-4", "ANY_HOST", "LAST_SEEN"])
def test_another_destination_is_asked_for(
    world: SteppedJob, instance: dg.DagsterInstance, other: str
) -> None:
    """The first move has ended well; the word of the re-execution is carried out as well."""
    done, first, _ = launch(instance, "move_container", MOVE)
    assert done
    done, second, why = launch(instance, "move_container", {**MOVE, "destination": other}, first)
    assert done, why
    assert world.asked == [("0", "host-2"), ("0", other)]
    assert list(world.requests) == [request_uuid(first, "move", n) for n in (0, 1)]
    assert world.starts == {"0": 2}
    done, _, why = launch(instance, "move_container", {**MOVE, "destination": other}, second)
    assert done, why
    assert len(world.requests) == 2, "the same work is never asked twice"


@pytest.mark.longdagster
def test_a_destination_may_change_there_and_back(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Each time the last word counts, and each is asked once."""
    _, first, _ = launch(instance, "move_container", MOVE)
    for destination in ("host-4", "host-4", "host-2", "host-2"):
        ask = {**MOVE, "destination": destination}
        done, _, why = launch(instance, "move_container", ask, first)
        assert done, why
        assert world.at["0"] == destination
    assert world.asked == [("0", "host-2"), ("0", "host-4"), ("0", "host-2")]


@pytest.mark.longdagster
def test_another_destination_that_failed_leaves_the_former_one_done(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Back to the first config: the container is there, nothing is stopped for it."""
    _, first, _ = launch(instance, "move_container", MOVE)
    world.ends = [NOT_STARTED]
    done, _, _ = launch(instance, "move_container", {**MOVE, "destination": "host-4"}, first)
    assert not done
    assert launch(instance, "move_container", MOVE, first)[0]
    assert len(world.requests) == 2


@pytest.mark.longdagster
def test_another_destination_waits_for_the_end_of_what_is_under_way(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The refusal names the request and how to follow it; nothing is asked beside it."""
    world.breaks = {texts.STOP_IN_PROGRESS: too_late()}
    done, first, _ = launch(instance, "move_container", MOVE)
    assert not done
    (uuid,) = world.requests
    again = {**MOVE, "destination": "host-4"}
    done, _, why = launch(instance, "move_container", again, first)
    assert not done
    assert f"request {uuid} of an earlier run (→ host-2) is under way" in why
    assert len(world.requests) == 1
    world.go_on(uuid)
    assert launch(instance, "move_container", again, first)[0]
    assert world.at["0"] == "host-4"


@pytest.mark.longdagster
def test_a_swap_back_makes_room_anew(world: SteppedJob, instance: dg.DagsterInstance) -> None:
    """The standby's first place is the active's second destination: it leaves that as well."""
    world.coordinator = "samza"
    done, first, _ = launch(instance, "move_with_standby", {"processor": "0"})
    assert done
    assert (world.at["0"], world.at["0-0"]) == ("host-3", "host-2")
    again = {"processor": "0", "destination": "host-2"}
    done, _, why = launch(instance, "move_with_standby", again, first)
    assert done, why
    assert world.at["0"] == "host-2"
    assert world.at["0-0"] not in ("host-2", "host-3")


@pytest.mark.longdagster
def test_one_more_standby_elsewhere_is_asked_for(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """spin_up_standby with another destination is another standby."""
    world.lag_now = {"0-1": [0], "0-2": [0]}
    ask = {"processor": "0", "destination": "host-4", "steady_s": 0}
    _, first, _ = launch(instance, "spin_up_standby", ask)
    done, _, why = launch(instance, "spin_up_standby", {**ask, "destination": "host-2"}, first)
    assert done, why
    assert (world.at["0-1"], world.at["0-2"]) == ("host-4", "host-2")


@pytest.mark.longdagster
def test_a_move_by_way_of_a_standby_elsewhere_leaves_none_behind_unsaid(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The chain's own standby waits at the first destination: refused until that one is gone."""
    world.breaks = {"lag": too_late()}
    done, first, _ = launch(instance, "move_via_new_standby", VIA)
    assert not done
    again = {**VIA, "destination": "host-2"}
    done, _, why = launch(instance, "move_via_new_standby", again, first)
    assert not done
    assert "0-1 on host-4" in why
    assert "control-standby stop 0-1" in why
    assert len(world.requests) == 1
    del world.at["0-1"]
    done, _, why = launch(instance, "move_via_new_standby", again, first)
    assert done, why
    assert world.at == {"0": "host-2", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}


@pytest.mark.longdagster
def test_a_move_by_way_of_a_standby_can_go_on_to_another_host(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Its second standby has the id of the first and gives its place as well."""
    done, first, _ = launch(instance, "move_via_new_standby", VIA)
    assert done
    done, _, why = launch(instance, "move_via_new_standby", {**VIA, "destination": "host-2"}, first)
    assert done, why
    assert world.at == {"0": "host-2", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}
    kinds = ["start-standby", "stop-standby", "hold"]
    assert list(world.kinds.values()) == kinds * 2


@pytest.mark.longdagster
@pytest.mark.parametrize("job", ["move_with_standby", "fail_over"])
def test_a_whole_re_execution_with_the_same_words_asks_nothing(
    world: SteppedJob, instance: dg.DagsterInstance, job: str
) -> None:
    """Though the standby is elsewhere by now."""
    done, first, _ = launch(instance, job, {"processor": "0"})
    assert done
    done, _, why = launch(instance, job, {"processor": "0", "timeout_s": 7}, first)
    assert done, why
    assert len(world.requests) == 1


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("before", "since"),
    [
        ({"destinations": ["host-2", "host-3"]}, {"destinations": ["host-3", "host-4"]}),
        ({"exclude": ["host-4", "host-5"]}, {"exclude": ["host-2", "host-5"]}),
    ],
)
def test_a_drain_to_other_hosts_makes_room_on_them(
    world: SteppedJob, instance: dg.DagsterInstance, before: dict[str, Any], since: dict[str, Any]
) -> None:
    """The standby had gone to a host that the active has now: it leaves that as well."""
    world.hosts = {f"host-{n}": HostView(f"host-{n}", "alive") for n in range(1, 6)}
    world.at = {"0": "host-1", "0-0": "host-2"}
    world.lag_now = {"0": [0], "0-0": [0]}
    world.ends = [DONE, NOT_STARTED]
    ask = {"host": "host-1", "verify_timeout_s": 0}
    done, first, _ = launch(instance, "drain_host", {**ask, **before})
    assert not done
    assert world.at == {"0": "host-1", "0-0": "host-3"}
    done, _, why = launch(instance, "drain_host", {**ask, **since}, first)
    assert done, why
    assert world.at == {"0": "host-3", "0-0": "host-4"}
