"""`auto_failover` as Dagster runs it, the run that follows, and the acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from lookout import LOOKOUTS, Lookout, LookoutSamza

from samza_dagster.orchestration.jobs import failover_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.tags import CASE, GROUP, JOB, WHO, WHY
from samza_dagster.orchestration.watch import auto_failover as module
from samza_dagster.orchestration.watch.auto_failover import acknowledge_job, auto_failover_sensor
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.reported import acknowledgement, history, with_events
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.dagster


class Stage:
    """A world, an instance, and the sensor between them."""

    def __init__(self, world: Lookout, instance: dg.DagsterInstance) -> None:
        self.world = world
        self.instance = instance
        self.cursor: str | None = None
        self.said = ""
        self.events: list[dg.AssetObservation] = []

    def tick(self, mode: str = "act", prefix: str = "") -> list[dg.RunRequest]:
        self.world.now_ms += 5_000
        self.world.alive()
        sensor = auto_failover_sensor(AutoFailover.model_validate({"mode": mode}))
        samza = LookoutSamza(bootstrap_servers="here", job_name="demo", prefix=prefix)
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"samza": samza}
        ) as context:
            result = sensor(context)
        if isinstance(result, dg.SkipReason):
            self.said = result.skip_message or ""
            return []
        assert isinstance(result, dg.SensorResult)
        for event in result.asset_events or []:
            assert isinstance(event, dg.AssetObservation)
            self.instance.report_runless_asset_event(event)
            self.events.append(event)
        self.cursor = result.cursor
        self.said = result.skip_reason.skip_message or "" if result.skip_reason else ""
        return list(result.run_requests or [])

    def run(self, job: dg.JobDefinition, config: object) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            run_config=config,
            instance=self.instance,
            resources={
                "samza": LookoutSamza(bootstrap_servers="here", job_name="demo"),
                "samza_policies": PlacementPolicies(verify_timeout_s=0),
            },
            raise_on_error=False,
        )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    world = LOOKOUTS["here"] = Lookout()
    monkeypatch.setattr(module.time, "time_ns", lambda: world.now_ms * 1_000_000)
    monkeypatch.setattr(module, "since_boot", lambda: ("this boot", world.now_ms))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Stage(world, instance)
    LOOKOUTS.clear()


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


def test_from_the_event_to_the_run_are_fifteen_seconds_at_most(stage: Stage) -> None:
    """A tick every five seconds, and two looks that say the same."""
    stage.tick()
    began_ms = stage.world.now_ms + 1
    asked_run(stage)
    told_at = stage.events[0].metadata["told_at"].value
    assert isinstance(told_at, float)
    assert told_at * 1000 - began_ms <= 15_000


def test_the_run_of_a_job_under_a_prefix_has_that_job_s_tags(stage: Stage) -> None:
    """Another cluster may have a job of that name and id."""
    stage.world.words["host-0"] = 15_000
    (run,) = [run for _ in range(3) for run in stage.tick(prefix="east")]
    assert (run.tags[JOB], run.tags[GROUP]) == ("east/demo/1", "east/demo/1/0")
    assert run.job_name == "east_fail_over"


def test_advice_says_what_to_run_and_asks_nothing(stage: Stage) -> None:
    """The default."""
    stage.world.words["host-0"] = 15_000
    for _ in range(6):
        assert stage.tick("advise") == []
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
        stage.tick("advise")
    stage.world.words["host-0"] = 100
    for _ in range(6):
        stage.tick("advise")
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
    (job,) = (job for job in failover_jobs("demo/1") if job.name == run.job_name)
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
    data = result.failure_data_for_node("move_standby_away")
    assert data is not None
    assert data.user_failure_data is not None
    assert "of incarnation 0#0" in str(data.user_failure_data.description)
    assert stage.world.asked == {}


def acknowledge(stage: Stage, **config: object) -> dg.ExecuteInProcessResult:
    given = {"processor": "0", "reason": "the agent was restarted", **config}
    return stage.run(acknowledge_job("demo/1"), {"ops": {"acknowledge": {"config": given}}})


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
    assert acknowledge(stage).success
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
    assert acknowledge(stage).success
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

    assert acknowledge(stage, dry_run=True).success
    assert acknowledged() == set()
    assert not acknowledge(stage, processor="77").success
    assert acknowledge(stage).success
    assert acknowledged() == {"0"}
