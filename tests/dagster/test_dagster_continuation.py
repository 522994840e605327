"""A run that waits ends, and the sensor `continuations` launches the one that goes on, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from fake_placement import FakeSamza, World, fake_definitions, fake_job, fake_move_via_waiting

from samza_dagster.orchestration.follow import ROOT
from samza_dagster.orchestration.jobs import waiting_jobs
from samza_dagster.orchestration.tags import JOB
from samza_dagster.orchestration.waits.conditions import Wait, read_met, read_wait
from samza_dagster.orchestration.waits.continuation import (
    MOST_LAUNCHED,
    Cursor,
    continuations_sensor,
)
from samza_dagster.orchestration.waits.waiting import (
    CANCELLED,
    CONTINUED,
    CONTINUES,
    GIVEN_UP,
    MET,
    WAITING,
    WAITS_FOR,
    YES,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.dagster
VIA = "move_via_new_standby"
ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}
NOW_MS = 1_800_000_000_000


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: the sensor looks at every run of the instance."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sensor's clock, in ms; the ops have their own."""
    now = [time.time_ns() // 1_000_000]
    monkeypatch.setattr(
        "samza_dagster.orchestration.waits.continuation.time.time_ns", lambda: now[0] * 1_000_000
    )
    return now


def launch(
    instance: dg.DagsterInstance, wait_in_run_s: int = 0, job: str = VIA, **config: Any
) -> dg.ExecuteInProcessResult:
    return fake_job(job, wait_in_run_s).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": {**ASK, **config}}}},
        instance=instance,
        raise_on_error=False,
    )


def continued(
    instance: dg.DagsterInstance, request: dg.RunRequest, wait_in_run_s: int = 0
) -> dg.ExecuteInProcessResult:
    """What the daemon does with a run request."""
    return fake_job(str(request.job_name), wait_in_run_s).execute_in_process(
        run_config=request.run_config,
        instance=instance,
        tags={**request.tags, "dagster/run_key": str(request.run_key)},
        raise_on_error=False,
    )


def tick(instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    sensor = continuations_sensor(waiting_jobs("demo/1"))
    samza = FakeSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"samza": samza}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(result: dg.SensorResult) -> list[dg.RunRequest]:
    return list(result.run_requests or [])


def re_executed(
    instance: dg.DagsterInstance, run_id: str, steps: list[str] | None = None
) -> dg.JobExecutionResult:
    """What the UI's button does: the tags go along."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return dg.execute_job(
        dg.reconstructable(fake_move_via_waiting),
        instance=instance,
        run_config=run.run_config,
        tags=dict(run.tags),
        reexecution_options=dg.ReexecutionOptions(parent_run_id=run_id, step_selection=steps or []),
    )


def tags(instance: dg.DagsterInstance, run_id: str) -> dict[str, str]:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return dict(run.tags)


def test_a_run_that_waits_long_ends_as_success_with_what_it_waits_for(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Its later ops are skipped; nothing but the standby's start was asked."""
    world.lag_now = {"0-1": [90_000]}
    result = launch(instance)
    assert result.success
    shown = tags(instance, result.run_id)
    wait = read_wait(shown[WAITS_FOR])
    assert wait is not None
    assert (wait.who, wait.limit, wait.number, wait.run) == (("0-1",), 100, 1, result.run_id)
    assert (shown[ROOT], shown[WAITING]) == (result.run_id, YES)
    assert list(world.kinds.values()) == ["start-standby"]


def test_the_continuing_run_finds_everything_answered_and_ends_the_work(
    world: World, instance: dg.DagsterInstance
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
    world: World, instance: dg.DagsterInstance
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
    world: World, instance: dg.DagsterInstance
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


@pytest.mark.parametrize("lost", [None, "", "{}", "no json", '{"version":1,"job":"other/1"}'])
def test_a_new_cursor_launches_nothing_twice(
    world: World, instance: dg.DagsterInstance, lost: str | None
) -> None:
    """A daemon that begins anew, before or after the launch."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert [r.run_key for r in requested(tick(instance, lost))] == [request.run_key]
    continued(instance, request)
    assert requested(tick(instance, lost)) == []


def test_steady_takes_looks_without_a_gap(
    world: World, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """A missed tick begins the steady time anew; the continuing run believes the sensor."""
    world.lag_now = {"0-1": [7]}
    launch(instance, steady_s=100)
    cursor: str | None = None
    for step_s, done in ((0, False), (50, False), (61, False), (50, False), (49, False), (1, True)):
        clock[0] += step_s * 1000
        result = tick(instance, cursor)
        assert bool(requested(result)) is done, step_s
        cursor = result.cursor
    (request,) = requested(result)
    seen = read_met(request.tags[MET])
    assert seen is not None
    assert seen.steady_ms == {"0-1": 100_000}
    assert continued(instance, request).success
    assert world.at["0"] == "host-4"


def test_a_standby_that_fell_behind_again_is_waited_for_again(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The second wait is number 2 of the same chain, with the first one's deadline."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance, catch_up_timeout_s=500)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    world.lag_now = {"0-1": [90_000]}
    second = continued(instance, request)
    assert second.success
    waits = [read_wait(tags(instance, r.run_id)[WAITS_FOR]) for r in (first, second)]
    assert [w.number for w in waits if w] == [1, 2]
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[0].deadline_ms == waits[1].deadline_ms
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    assert request.run_key == f"{first.run_id}/2"
    assert request.tags[CONTINUES] == "2"
    assert tags(instance, first.run_id)[WAITING] == CONTINUED
    assert continued(instance, request).success
    assert list(world.kinds.values()) == ["start-standby", "stop-standby", "hold"]


def test_a_deadline_that_is_over_fails_the_run_with_the_true_reason(
    world: World, instance: dg.DagsterInstance, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is continued for that; the standby is kept, and the failure says so."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance, catch_up_timeout_s=60)
    clock[0] += 61_000
    (request,) = requested(tick(instance))
    later = request.tags[MET].replace(
        f'"deadline_ms":{read_met(request.tags[MET]).deadline_ms}',
        '"deadline_ms":1',  # type: ignore[union-attr]
    )
    result = continued(instance, request._replace(tags={**request.tags, MET: later}))
    data = result.failure_data_for_node("wait_until_warm")
    assert data is not None
    assert data.user_failure_data is not None
    text = str(data.user_failure_data.description)
    assert "90000 records behind" in text
    assert "the deadline is over" in text
    assert "is kept" in text
    assert "no run waits" in str(tick(instance).skip_reason)


def test_a_re_execution_of_the_failed_one_has_a_deadline_of_its_own(
    world: World, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """To wait on is what its failure proposes."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance, catch_up_timeout_s=60)
    clock[0] += 61_000
    (request,) = requested(tick(instance))
    old = str(read_met(request.tags[MET]).deadline_ms)  # type: ignore[union-attr]
    tag = {**request.tags, MET: request.tags[MET].replace(old, "1")}
    assert not continued(instance, request._replace(tags=tag)).success
    failed = instance.get_runs(dg.RunsFilter(tags={CONTINUES: "1"}))[0]
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, failed.run_id) as result:
        assert result.success
    assert world.at["0"] == "host-4"
    assert len(world.requests) == 3
    assert first.run_id in {r.tags.get(ROOT) for r in instance.get_runs()}


def test_a_wait_whose_run_was_re_executed_to_the_end_is_not_continued(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The standby that it waited for has done its part and is gone."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, first.run_id) as again:
        assert again.success
    assert world.at["0"] == "host-4"
    ticked = tick(instance)
    assert requested(ticked) == []
    assert "no run waits" in str(ticked.skip_reason)
    assert tags(instance, first.run_id)[WAITING] == CONTINUED


def test_a_wait_is_not_continued_beside_its_re_execution(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Two runs of one chain would do the same side by side; when that one fails, it goes on."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    copied = {**tags(instance, first.run_id), "dagster/parent_run_id": first.run_id}
    beside = instance.create_run_for_job(
        fake_job(VIA),
        status=dg.DagsterRunStatus.STARTED,
        parent_run_id=first.run_id,
        root_run_id=first.run_id,
        tags=copied,
    )
    ticked = tick(instance)
    assert requested(ticked) == []
    assert "being re-executed" in str(ticked.skip_reason)
    instance.report_run_failed(beside)
    assert len(requested(tick(instance, ticked.cursor))) == 1


def test_a_re_execution_of_some_steps_alone_does_not_end_a_wait(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The plan was made again; what comes after the wait wasn't done."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, first.run_id, [f"plan_{VIA}"]) as again:
        assert again.success
    assert len(requested(tick(instance))) == 1


def test_a_cancelled_wait_is_not_continued(world: World, instance: dg.DagsterInstance) -> None:
    """A tag on the run that waits is enough, whoever sets it."""
    world.lag_now = {"0-1": [7]}
    result = launch(instance, steady_s=3600)
    instance.add_run_tags(result.run_id, {CANCELLED: "by hand"})
    assert "no run waits" in str(tick(instance).skip_reason)
    assert tags(instance, result.run_id)[WAITING] == GIVEN_UP


def test_a_continuing_run_that_was_terminated_is_not_launched_again(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Its run exists: whoever stopped it meant it."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    world.breaks = {"lag": dg.DagsterExecutionInterruptedError()}
    assert not continued(instance, request).success
    assert requested(tick(instance)) == []
    assert "no run waits" in str(tick(instance).skip_reason)


def test_a_standby_that_is_gone_fails_the_run(world: World, instance: dg.DagsterInstance) -> None:
    """Somebody removed it while nobody looked."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    del world.at["0-1"]
    (request,) = requested(tick(instance))
    result = continued(instance, request)
    data = result.failure_data_for_node("wait_until_warm")
    assert data is not None
    assert data.user_failure_data is not None
    assert "isn't in the job any more" in str(data.user_failure_data.description)


def test_spin_up_standby_waits_in_the_same_way(world: World, instance: dg.DagsterInstance) -> None:
    """The job that only spins up holds no worker either."""
    world.lag_now = {"0-1": [90_000]}
    assert launch(instance, job="spin_up_standby").success
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    result = continued(instance, request)
    assert result.output_for_node("wait_until_warm") == "0-1"
    assert list(world.kinds.values()) == ["start-standby"]


def test_kafka_that_does_not_answer_skips_the_tick_and_keeps_the_cursor(
    world: World, instance: dg.DagsterInstance
) -> None:
    """What was steady isn't forgotten by it; the gap decides."""
    from samza_dagster.errors import Unreachable

    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.breaks = {"lag": Unreachable("read offsets", seen="no answer")}
    sensor = continuations_sensor(waiting_jobs("demo/1"))
    samza = FakeSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(instance=instance, resources={"samza": samza}) as context:
        result = sensor(context)
    assert isinstance(result, dg.SkipReason)
    assert "no answer" in str(result.skip_message)


@pytest.mark.longdagster
def test_a_thousand_runs_that_wait_cost_a_tick_two_seconds_at_most(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Processor time of one look at all of them; what is due is launched in portions."""
    for number in range(1000):
        wait = Wait((f"0-{number + 1}",), 100, 30, 1, 1, f"run-{number}")
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
    assert len(Cursor.read(cursor, "demo/1").watched) == 1000


def test_dagster_takes_the_request_as_one_for_a_job_of_the_sensor(
    world: World, instance: dg.DagsterInstance
) -> None:
    """As the daemon evaluates it: in the repository, with targets and tags resolved."""
    definitions = fake_definitions("reexecuted")
    repository = dg.Definitions(
        jobs=definitions.jobs,
        sensors=[continuations_sensor(waiting_jobs("demo/1"))],
        resources=definitions.resources,
    ).get_repository_def()
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    samza = FakeSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(
        instance=instance, repository_def=repository, resources={"samza": samza}
    ) as context:
        data = repository.get_sensor_def("continuations").evaluate_tick(context)
    (request,) = data.run_requests or []
    assert request.job_name == VIA
    assert request.run_key == f"{first.run_id}/1"
    assert request.tags[ROOT] == first.run_id
