"""Job `drain_host` where something fails, dies, is cancelled or away: what is done isn't asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest
from drains import DONE, config, drain, on
from placement_runs import Run
from run_results import failure
from test_dagster_reexecution import execute, from_failure

from samza_dagster.client import PlacementClient
from samza_dagster.client.checkpoints import ProcessorProgress
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.plans.move import UnitLimits
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan, UnitStep
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import EXPIRED, NOT_STARTED, SUCCEEDED, SteppedJob

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("full_host")]


def test_a_failure_stops_what_has_not_begun_and_a_re_execution_goes_on(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The first that fails is the last that is begun; its second attempt is a re-execution's."""
    world.ends = [DONE, DONE, NOT_STARTED]
    done, first = execute(instance, job="drain_host", config=config())
    assert not done
    assert on(world) == ["0", "1", "2"]
    assert from_failure(instance, first, "drain_host", config())
    assert on(world) == []
    failed, again = (request_uuid(first, "drain_host/host-1/0/move", n) for n in (0, 1))
    assert failed in world.requests
    assert again in world.requests
    assert len(world.requests) == 8


@pytest.mark.parametrize(("before", "then"), [(1, 4), (4, 1)])
def test_a_re_execution_has_as_many_at_once_as_its_own_config_says(
    world: SteppedJob, instance: dg.DagsterInstance, before: int, then: int
) -> None:
    """Of the whole run: hosts were chosen by the one before, how gently to go on is said anew."""
    world.status_s, world.ends = 10, [NOT_STARTED]
    done, first = execute(instance, job="drain_host", config=config(at_once=before))
    assert not done
    world.busiest = 0
    again = dg.ReexecutionOptions(parent_run_id=first)
    assert execute(instance, again, "drain_host", config(at_once=then))[0]
    assert (world.busiest > 1) is (then > 1)
    assert on(world) == []


def test_what_is_asked_when_another_fails_is_followed_to_its_end(
    world: SteppedJob, run: Run
) -> None:
    """Also beside one that only waits for a standby: that one alone is let go of."""
    world.lag_now = {**world.lag_now, "1-1": [50_000]}
    world.ends = [DONE, NOT_STARTED]
    text, metadata = failure(drain(run, at_once=4), "drain")
    assert all(world.answers[uuid][-1].status_code.is_terminal for uuid in world.requests)
    ended = {row.data["container"]: row.data["outcome"] for row in metadata["outcomes"].records}
    assert ended.pop("1") == "waiting"
    assert sorted(ended.values()) == ["back", "back", "failed"]
    assert text.endswith("left waiting: 1")


@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_standby_of_a_failed_move_is_kept_or_removed_as_configured(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    """The warm-up takes too long: the failure says what is left."""
    monkeypatch.setattr(runner, "LAG_MS", 100)
    world.lag_now = {**world.lag_now, "1-1": [50_000]}
    result = drain(run, catch_up_timeout_s=1, if_it_fails=fate)
    text, metadata = failure(result, "drain")
    assert "is warm within 1 s" in text
    assert "50,000 records behind" in text
    assert ("1-1" in world.at) is (fate == "keep")
    assert ("is kept" if fate == "keep" else "removed again") in metadata["extra_standbys"]


@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_standby_that_a_terminated_drain_waits_for_is_kept_or_removed_as_configured(
    world: SteppedJob, instance: dg.DagsterInstance, fate: str
) -> None:
    """The wait is the run's own; kept, the standby is gone on with by a re-execution."""
    world.lag_now = {**world.lag_now, "1-1": [50_000]}

    def terminate() -> None:
        world.breaks = {"lag": dg.DagsterExecutionInterruptedError()}

    world.after_answer = {"start-standby": terminate}
    asked = config(if_it_fails=fate)
    done, first = execute(instance, job="drain_host", config=asked)
    assert not done
    assert ("1-1" in world.at) is (fate == "keep")
    assert on(world) == ["1"]
    world.after_answer, world.lag_now = {}, {**world.lag_now, "1-1": [4]}
    assert from_failure(instance, first, "drain_host", asked)
    assert on(world) == []
    assert list(world.kinds.values()).count("start-standby") == (1 if fate == "keep" else 2)


def test_a_cancelled_drain_gives_back_what_was_only_reserved(world: SteppedJob, run: Run) -> None:
    """What was asked is cancelled; nothing else begins."""
    world.breaks = {texts.RESOURCES_REQUESTED: dg.DagsterExecutionInterruptedError()}
    result = drain(run)
    assert not result.success
    assert len(world.requests) == 1
    assert list(world.released) == list(world.requests)
    assert on(world) == ["0", "1", "2", "3-0"]


def test_a_drain_that_fails_while_kafka_is_away_still_tells_what_became_of_each(
    world: SteppedJob, run: Run
) -> None:
    """The map as it is now is the only thing that isn't known."""
    world.ends, world.away_at = [EXPIRED], EXPIRED[1]
    text, metadata = failure(drain(run), "drain")
    assert EXPIRED[1] in text
    assert "not begun or left waiting: 0, 2, 1" in text
    assert metadata["outcomes"].records
    assert "no broker answers" in metadata["hosts_and_containers_now"]


@pytest.mark.parametrize("where", ["wait", "lag", "commits", texts.STOP_IN_PROGRESS])
def test_a_broker_that_is_away_for_a_moment_ends_no_drain(
    world: SteppedJob, run: Run, where: str
) -> None:
    """What couldn't be read is read again, and nobody is asked twice."""
    world.breaks = {where: Unreachable("Kafka", seen="no broker answers")}
    world.breaks_after[where] = 1
    assert drain(run).success
    assert world.breaks == {}
    assert on(world) == []
    assert len(world.requests) == 7


def test_a_broker_that_stays_away_ends_the_drain_and_what_became_of_each_is_told(
    world: SteppedJob, run: Run
) -> None:
    """Once nobody has answered for `timeout_s`."""
    world.ends, world.away_at = [DONE, (SUCCEEDED, "away")], "away"
    text, metadata = failure(drain(run, timeout_s=1), "drain")
    assert "no broker answers" in text
    assert text.endswith("not begun or left waiting: 0, 2, 1")
    states = {row.data["container"]: row.data["outcome"] for row in metadata["outcomes"].records}
    assert states == {"3-0": "back", "0": "waiting", "2": "waiting", "1": "waiting"}


def test_a_view_that_lags_behind_an_answer_is_waited_for(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answer and state are in two topics: a refusal right after a step is looked at again."""
    reserve, refused = PlacementClient.reserve, list[str]()

    def refuse_once(client: PlacementClient, processor: str, destination: str, **more: Any) -> Any:
        if processor == "0" and not refused:
            refused.append(processor)
            raise Refused("same host", seen="0-0 is on host-2")
        return reserve(client, processor, destination, **more)

    monkeypatch.setattr(PlacementClient, "reserve", refuse_once)
    assert drain(run).success
    assert refused == ["0"]


def test_an_active_that_does_not_process_stops_the_drain(world: SteppedJob, run: Run) -> None:
    """Its move went well; the next one isn't begun."""
    world.processes = False
    text, _ = failure(drain(run, verify_timeout_s=1), "drain")
    assert "0 processes within 1 s of its start" in text
    assert "left waiting: 2, 1" in text


def test_a_re_execution_counts_what_was_committed_since_the_move_of_the_run_before(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Where commits ended at the move is kept: the input may have been idle ever since."""
    world.processes = False
    short = config(verify_timeout_s=1)
    done, first = execute(instance, job="drain_host", config=short)
    assert not done
    moved_at = world.commits_end
    world.commits_end += 50
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PlacementClient,
            "processing",
            lambda _, p, since: asked.append(since) or ProcessorProgress(p, since, True, (), since),
        )
        assert from_failure(instance, first, "drain_host", short)
    assert asked[0] == moved_at
    assert set(asked[1:]) == {moved_at + 50}


def test_a_wait_for_a_standby_reads_nothing_between_two_looks(
    world: SteppedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take hours, and the run turns four times a second."""
    monkeypatch.setattr(runner, "LOOK_MS", 1_000)
    monkeypatch.setattr(runner, "LAG_MS", 2_000)
    steps = (UnitStep("warm", Kind.WAIT_WARM, "1-0"), UnitStep("move", Kind.PLACE, "1", "host-3"))
    plan = UnitsPlan(
        *("drain_host", "host-1", "demo/1", "samza_dagster", (Unit("1", "", "", steps, "1"),)),
        *(Schedule(), UnitLimits(60, 60, 0, CatchUp(100, 0, 60)), ()),
    )
    reads: list[int] = []

    def sleep(_: float) -> None:
        reads.append(world.calls.count)
        if len(reads) > 20:
            raise dg.DagsterExecutionInterruptedError

    world.lag_now = {**world.lag_now, "1-0": [90_000]}
    ledger = SimpleNamespace(
        **dict.fromkeys(("log", "progress", "finished", "check_passed"), lambda *_: None)
    )
    carrier = Runner(
        *(world.client(), plan, "root", cast("Any", ledger), {}),
        sleep=sleep,
        now_ms=lambda: 1_000_000 + 100 * len(reads),
    )
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        carrier.run()
    assert len(set(reads[1:])) <= 3


def test_a_re_execution_starts_another_standby_for_the_one_that_was_removed(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What is asked of the second one is asked anew, though it has the id of the first."""
    world.lag_now["1-1"] = [50_000]
    asked = config(catch_up_timeout_s=1, if_it_fails="remove")
    done, first = execute(instance, job="drain_host", config=asked)
    assert not done
    assert "1-1" not in world.at
    world.lag_now["1-1"] = [9]
    assert from_failure(instance, first, "drain_host", asked)
    assert on(world) == []
    assert [
        kind for kind, (p, _) in zip(world.kinds.values(), world.asked, strict=True) if p[0] == "1"
    ] == [
        *("start-standby", "stop-standby"),
        *("start-standby", "stop-standby", "hold"),
    ]


def test_each_standby_that_a_chain_of_drains_starts_in_vain_is_removed(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Also the second one, which has the id and the host of the first."""
    world.lag_now["1-1"] = [50_000]
    asked = config(catch_up_timeout_s=1, if_it_fails="remove")
    _, first = execute(instance, job="drain_host", config=asked)
    assert "1-1" not in world.at
    assert not from_failure(instance, first, "drain_host", asked)
    assert list(world.kinds.values()).count("start-standby") == 2
    assert "1-1" not in world.at


def test_a_drain_older_than_its_answers_is_refused(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The last move failed; what came of the others isn't on record any more."""
    world.ends = [DONE] * 6 + [NOT_STARTED]
    done, first = execute(instance, job="drain_host", config=config())
    assert not done
    world.clean_up()
    known = len(world.requests)
    assert not from_failure(instance, first, "drain_host", config())
    assert len(world.requests) == known
