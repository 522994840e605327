"""`auto_failover` as Dagster runs it, the run that follows, and the acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from lookout import FailoverStage as Stage
from lookout import failover_stages
from run_results import failure

from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.tags import CASE, GROUP, JOB, WHO, WHY
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.reported import acknowledgement, history, with_events

pytestmark = pytest.mark.dagster


@pytest.fixture
def stage() -> Iterator[Stage]:
    with failover_stages("") as (made,):
        yield made


def asked_run(stage: Stage) -> dg.RunRequest:
    stage.world.words["host-0"] = 15_000
    (run,) = [run for _ in range(3) for run in stage.tick()]
    return run


def test_its_tick_asks_nothing_and_requests_one_run(stage: Stage) -> None:
    """It is keyed by the case, tagged with group, case and reason, and told what was seen."""
    run = asked_run(stage)
    assert stage.world.asked == {}
    assert run.job_name == "fail_over"
    config = run.run_config["ops"]["plan_fail_over"]["config"]
    assert (config["processor"], config["execution_id"]) == ("0", "0#0")
    assert run.tags[GROUP] == "demo/1/0"
    assert run.tags[CASE] == run.run_key == stage.events[0].metadata["run_key"].value
    assert "last word is 15 s old" in run.tags[WHY]
    assert run.tags[WHO] == "auto_failover"
    assert run.tags[WHY].startswith("host-sick of ")
    assert int(run.tags["dagster/priority"]) > 0
    assert stage.tick() == []


def test_the_run_of_a_job_under_a_prefix_has_that_job_s_tags() -> None:
    """Another cluster may have a job of that name and id."""
    with failover_stages("east") as (stage,):
        run = asked_run(stage)
    assert (run.tags[JOB], run.tags[GROUP]) == ("east/demo/1", "east/demo/1/0")
    assert run.job_name == "east_fail_over"


def test_advice_says_what_to_run_and_asks_nothing(stage: Stage) -> None:
    """The default."""
    stage.world.words["host-0"] = 15_000
    for _ in range(6):
        assert stage.tick(mode="advise") == []
    assert stage.world.asked == {}
    (event,) = stage.events
    told = {name: value.value for name, value in event.metadata.items()}
    assert told["verdict"] == "advise"
    assert told["what_to_do"] == "samza-dagster fail-over 0"
    assert "last word is 15 s old" in str(told["why"])


def test_its_end_is_told_once(stage: Stage) -> None:
    """And by whom it was over isn't claimed."""
    stage.world.words["host-0"] = 15_000
    for _ in range(4):
        stage.tick(mode="advise")
    stage.world.words["host-0"] = 100
    for _ in range(6):
        stage.tick(mode="advise")
    assert [event.tags["samza/event"] for event in stage.events] == [
        "auto-failover",
        "auto-failover-over",
    ]
    for event in stage.events:
        assert isinstance(event.metadata["told_at"], dg.TimestampMetadataValue)
        numbers = [value.value for value in event.metadata.values() if type(value.value) is int]
        assert all(number < stage.world.now_ms / 10 for number in numbers), "ms since the epoch"


def test_a_broker_that_is_away_leaves_the_cursor_alone(stage: Stage) -> None:
    """The next tick goes on where this one began."""
    stage.tick()
    before = stage.cursor
    stage.world.away = True
    assert stage.tick() == []
    assert "Kafka doesn't answer" in stage.said
    assert stage.cursor == before


def fail_over(stage: Stage, run: dg.RunRequest) -> dg.ExecuteInProcessResult:
    (job,) = (job for job in placement_jobs("demo/1") if job.name == run.job_name)
    return stage.run(job, run.run_config)


def test_the_run_asks_and_follows(stage: Stage) -> None:
    """By the placement job that a person would launch; who asks and why are its tags."""
    run = asked_run(stage)
    world = stage.world
    world.after_ask = lambda: world.fail_over_done(list(world.asked)[-1])
    assert fail_over(stage, run).success
    assert list(world.asked.values()) == [("fail-over", "0")]
    assert list(world.incarnations_asked.values()) == ["0#0"]
    assert world.at["0"] == "host-1"


def test_the_run_asks_nothing_once_the_coordinator_has_acted(stage: Stage) -> None:
    """Seconds pass between the look and the run."""
    run = asked_run(stage)
    stage.world.start("0", "host-2")
    result = fail_over(stage, run)
    assert not result.success
    assert "of incarnation 0#0" in failure(result, "move_standby_away")[0]
    assert stage.world.asked == {}


def test_an_acknowledgement_lifts_the_block(stage: Stage) -> None:
    """Until then another failure of the group is told and left alone."""
    asked_run(stage)
    stage.world.start("0", "host-2")
    stage.world.words = dict.fromkeys(stage.world.words, 100)
    stage.world.words["host-2"] = 15_000
    runs = [run for _ in range(4) for run in stage.tick()]
    assert [run.tags[GROUP] for run in runs] == ["demo/1/2"]
    told = [str(e.metadata["because"].value) for e in stage.events if "because" in e.metadata]
    assert any(because.startswith("block: ") for because in told)
    assert stage.acknowledge().success
    assert [run.tags[GROUP] for run in stage.tick()] == ["demo/1/0"]


@pytest.mark.longdagster
@pytest.mark.parametrize("clock_off_ms", [-300_000, 0, 3_600_000])
@pytest.mark.parametrize("cursor_lost", [False, True])
def test_an_acknowledgement_is_about_the_block_that_stands_whatever_its_clock_says(
    stage: Stage, cursor_lost: bool, clock_off_ms: int
) -> None:
    """One from a host five minutes behind lifts it, one from an hour ahead lifts no later one."""
    stage.world.words["host-0"] = 15_000
    runs: set[str | None] = set()
    for number in (1, 2):
        for _ in range(8):
            runs |= {run.run_key for run in stage.tick()}
        assert len(runs) == number
        looked = acknowledgement(
            "demo/1", "0", at_ms=stage.world.now_ms + clock_off_ms, who="me", why="looked"
        )
        if number == 1:
            stage.instance.report_runless_asset_event(looked)
        if cursor_lost:
            stage.cursor = None


def test_an_acknowledgement_of_nothing_lifts_nothing_later(stage: Stage) -> None:
    """What is acted on after it is another matter; a lost cursor forgets no block."""
    assert stage.acknowledge().success
    asked_run(stage)
    for cursor in (stage.cursor, None):
        stage.cursor = cursor
        for _ in range(6):
            assert stage.tick() == []


def test_a_cursor_that_cant_be_read_is_begun_anew(stage: Stage) -> None:
    """Junk, or a later version's; what Dagster has on record is read back."""
    asked_run(stage)
    stage.cursor = '{"version": 99, "job": "demo/1"}'
    for _ in range(6):
        assert stage.tick() == []
    assert stage.events[-1].metadata["verdict"].value == "held"


def test_an_acknowledgement_can_be_tried_dry(stage: Stage) -> None:
    """Nothing is written; an unknown processor is refused."""

    def acknowledged() -> set[str]:
        return {*with_events(FailoverCursor("demo/1"), history(stage.instance))[0].acknowledged}

    assert stage.acknowledge(dry_run=True).success
    assert acknowledged() == set()
    assert not stage.acknowledge(processor="77").success
    assert stage.acknowledge().success
    assert acknowledged() == {"0"}
