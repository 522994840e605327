"""A run that waits ends, and the sensor `continuations` launches the one that goes on, once."""

from __future__ import annotations

import time

import dagster as dg
import pytest
from placement_runs import SteppedSamza, definitions_over
from waiting_runs import VIA, continued, launch, requested, tags, tick

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.chain import ROOT
from samza_dagster.orchestration.jobs import waiting_jobs
from samza_dagster.orchestration.plans.conditions import Met, Wait
from samza_dagster.orchestration.tags import JOB
from samza_dagster.orchestration.waits.continuation import (
    MOST_LAUNCHED,
    ContinuationCursor,
    continuations_sensor,
)
from samza_dagster.orchestration.waits.waiting import (
    CONTINUED,
    CONTINUES,
    MET,
    WAITING,
    WAITS_FOR,
    YES,
)
from tests.rig.pace import PACE
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: the sensor looks at every run of the instance."""
    return own_instance


def test_a_run_that_waits_long_ends_as_success_with_what_it_waits_for(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Its later ops are skipped; nothing but the standby's start was asked."""
    world.lag_now = {"0-1": [90_000]}
    result = launch(instance)
    assert result.success
    shown = tags(instance, result.run_id)
    wait = Wait.read(shown[WAITS_FOR])
    assert wait is not None
    assert (wait.who, wait.limit, wait.number, wait.run) == (("0-1",), 100, 1, result.run_id)
    assert (shown[ROOT], shown[WAITING]) == (result.run_id, YES)
    assert list(world.kinds.values()) == ["start-standby"]


def test_the_continuing_run_finds_everything_answered_and_ends_the_work(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """One standby, one removal, one move, over two runs of one root."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance, reason="a disk")
    waits = tick(instance)
    assert requested(waits) == []
    assert "90,000 records behind" in str(waits.skip_reason)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance, waits.cursor))
    assert request.run_key == f"{first.run_id}/1"
    assert request.tags[ROOT] == first.run_id
    assert request.tags[JOB] == "demo/1"
    assert WAITS_FOR not in request.tags
    second = continued(instance, request)
    assert second.success
    assert list(world.kinds.values()) == ["start-standby", "stop-standby", "hold"]
    assert world.at["0"] == "host-4"


def test_a_continuing_run_is_retried_as_often_as_the_one_that_waited(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What a person gave at the launch goes on; what Dagster wrote of that one run doesn't."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    given = {"dagster/max_retries": "1", "dagster/priority": "3"}
    instance.add_run_tags(first.run_id, {**given, "dagster/retry_number": "1"})
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert {k: v for k, v in request.tags.items() if k.startswith("dagster/")} == given


def test_a_double_tick_asks_for_the_same_run_key(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Dagster launches a run key once; after the launch nothing is asked for."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    one, two = tick(instance), tick(instance)
    assert [r.run_key for r in requested(one)] == [r.run_key for r in requested(two)]
    continued(instance, requested(one)[0])
    assert requested(tick(instance, one.cursor)) == []
    assert tags(instance, first.run_id)[WAITING] == CONTINUED
    assert "no run waits" in str(tick(instance).skip_reason)


@pytest.mark.parametrize("given", [None, "0"])
def test_a_continuing_run_whose_process_dies_is_retried_once_unless_its_launch_said_otherwise(
    world: SteppedJob, instance: dg.DagsterInstance, given: str | None
) -> None:
    """It comes hours after its launch, when nobody looks."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    if given is not None:
        instance.add_run_tags(first.run_id, {"dagster/max_retries": given})
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert request.tags["dagster/max_retries"] == (given or "1")


@pytest.mark.longdagster
@pytest.mark.parametrize("lost", [None, "", "{}", "no json", '{"version":1,"job":"other/1"}'])
def test_a_new_cursor_launches_nothing_twice(
    world: SteppedJob, instance: dg.DagsterInstance, lost: str | None
) -> None:
    """A daemon that begins anew, before or after the launch."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert [r.run_key for r in requested(tick(instance, lost))] == [request.run_key]
    continued(instance, request)
    assert requested(tick(instance, lost)) == []


@pytest.mark.longdagster
def test_a_standby_that_fell_behind_again_is_waited_for_again(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The second wait is number 2 of the same chain, with what the first one left of its time."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance, catch_up_timeout_s=500)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    world.lag_now = {"0-1": [90_000]}
    second = continued(instance, request)
    assert second.success
    waits = [Wait.read(tags(instance, r.run_id)[WAITS_FOR]) for r in (first, second)]
    assert [w.number for w in waits if w] == [1, 2]
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[0].left_ms["0-1"] >= waits[1].left_ms["0-1"] > 0
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert request.run_key == f"{first.run_id}/2"
    assert request.tags[CONTINUES] == "2"
    assert tags(instance, first.run_id)[WAITING] == CONTINUED
    assert continued(instance, request).success
    assert list(world.kinds.values()) == ["start-standby", "stop-standby", "hold"]


def test_spin_up_standby_waits_in_the_same_way(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The job that only spins up holds no worker either."""
    world.lag_now = {"0-1": [90_000]}
    assert launch(instance, job="spin_up_standby").success
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    result = continued(instance, request)
    assert result.output_for_node("wait_until_warm") == "0-1"
    assert list(world.kinds.values()) == ["start-standby"]


def test_kafka_that_does_not_answer_skips_the_tick_and_keeps_the_cursor(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What was steady isn't forgotten by it; the gap decides."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.away = True
    sensor = continuations_sensor(waiting_jobs("demo/1"))
    samza = SteppedSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(instance=instance, resources={"samza": samza}) as context:
        result = sensor(context)
    assert isinstance(result, dg.SkipReason)
    assert "no broker answers" in str(result.skip_message)


def test_a_run_whose_deadline_is_over_goes_on_though_nobodys_lag_can_be_read(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """It ends with the true reason then. Until its deadline the tick says what can't be read."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance, catch_up_timeout_s=500)
    world.breaks = {"lag": Unreachable("read offsets", seen="log-0 doesn't answer")}
    waits = tick(instance)
    assert requested(waits) == []
    assert "no lag can be read: log-0 doesn't answer" in str(waits.skip_reason)
    clock[0] += 501_000
    world.breaks = {"lag": Unreachable("read offsets", seen="log-0 doesn't answer")}
    (request,) = requested(tick(instance, waits.cursor))
    seen = Met.read(request.tags[MET])
    assert seen is not None
    assert seen.why == "its time is over"


def test_a_look_that_reads_no_lag_ends_no_steady_time_and_lengthens_none(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """Within the gap that a missed tick may leave."""
    world.lag_now = {"0-1": [7]}
    launch(instance, steady_s=50)
    cursor = tick(instance).cursor
    clock[0] += 55_000
    world.breaks = {"lag": Unreachable("read offsets", seen="log-0 doesn't answer")}
    unread = tick(instance, cursor)
    assert requested(unread) == []
    clock[0] += 4_000
    (request,) = requested(tick(instance, unread.cursor))
    seen = Met.read(request.tags[MET])
    assert seen is not None
    assert seen.steady_ms == {"0-1": 59_000}


@pytest.mark.longdagster
def test_a_thousand_runs_that_wait_cost_a_tick_two_seconds_at_most(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Processor time of one look at all of them; what is due is launched in portions."""
    for number in range(1000):
        wait = Wait({f"0-{number + 1}": 0}, 100, 30, 1, f"run-{number}")
        run = dg.DagsterRun(
            job_name=VIA,
            run_id=f"run-{number}",
            status=dg.DagsterRunStatus.SUCCESS,
            tags={JOB: "demo/1", WAITING: YES, ROOT: f"run-{number}", WAITS_FOR: wait.to_text()},
        )
        instance.add_run(run)
        world.at[f"0-{number + 1}"] = "host-4"
    world.lag_now = {f"0-{number + 1}": [1] for number in range(1000)}
    took = list[float]()
    cursor: str | None = None
    for _ in range(2):
        began = time.process_time()
        result = tick(instance, cursor)
        took.append(time.process_time() - began)
        cursor = result.cursor
    assert len(requested(result)) == MOST_LAUNCHED
    assert min(took) < 2.0 * PACE, took
    assert len(str(cursor)) < 200_000
    kept = ContinuationCursor.read(cursor, "demo/1")
    assert kept is not None
    assert len(kept.watched) == 1000


def test_dagster_takes_the_request_as_one_for_a_job_of_the_sensor(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """As the daemon evaluates it: in the repository, with targets and tags resolved."""
    definitions = definitions_over("reexecuted")
    repository = dg.Definitions(
        jobs=definitions.jobs,
        sensors=[continuations_sensor(waiting_jobs("demo/1"))],
        resources=definitions.resources,
    ).get_repository_def()
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    samza = SteppedSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(
        instance=instance, repository_def=repository, resources={"samza": samza}
    ) as context:
        data = repository.get_sensor_def("continuations").evaluate_tick(context)
    (request,) = data.run_requests or []
    assert request.job_name == VIA
    assert request.run_key == f"{first.run_id}/1"
    assert request.tags[ROOT] == first.run_id
