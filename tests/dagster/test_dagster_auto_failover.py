"""`auto_failover` as Dagster runs it, the run that follows, and the acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from lookout import LOOKOUTS, Lookout, LookoutSamza

from samza_dagster.client import PlacementClient
from samza_dagster.model import StatusCode
from samza_dagster.orchestration.tags import GROUP, JOB
from samza_dagster.orchestration.watch import failover_tick as module
from samza_dagster.orchestration.watch.audit import acknowledge_job, audit_job
from samza_dagster.orchestration.watch.reported import acknowledged, acknowledgement
from samza_dagster.orchestration.watch.sensors import auto_failover_sensor
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.stored import InstanceEvents
from tests.rig.worker import Killed

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
        sensor = auto_failover_sensor(AutoFailover.model_validate({"mode": mode, "look_for_s": 0}))
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
            resources={"samza": LookoutSamza(bootstrap_servers="here", job_name="demo")},
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


def test_it_asks_within_its_tick_and_launches_one_run_of_the_same_identity(stage: Stage) -> None:
    """UUID, run key and the event's request are one; the run is tagged with its group."""
    run = asked_run(stage)
    ((uuid, asked),) = stage.world.asked.items()
    assert asked == ("fail-over", "0")
    assert stage.world.incarnations_asked == {uuid: "0#0"}
    assert (run.run_key, run.job_name) == (uuid, "audit_failover")
    assert run.tags[GROUP] == "demo/1/0"
    assert stage.events[0].metadata["request"].value == uuid
    assert stage.tick() == []


def test_the_run_of_a_job_under_a_prefix_has_that_job_s_tags(stage: Stage) -> None:
    """Another cluster may have a job of that name and id."""
    stage.world.words["host-0"] = 15_000
    (run,) = [run for _ in range(3) for run in stage.tick(prefix="east")]
    assert (run.tags[JOB], run.tags[GROUP]) == ("east/demo/1", "east/demo/1/0")


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


def test_what_the_rules_refuse_is_told_with_their_words(stage: Stage) -> None:
    """The state changed between look and request."""
    stage.world.words["host-0"] = 15_000
    stage.tick()
    stage.tick()

    def gone(_kind: str, _processor: str) -> None:
        from samza_dagster.errors import Refused

        raise Refused("fail-over 0: onto a standby that runs", seen="0-0 stopping", fix="wait")

    stage.world.before_ask = gone
    assert stage.tick() == []
    assert stage.events[-1].metadata["verdict"].value == "refused"
    assert "0-0 stopping" in str(stage.events[-1].metadata["because"].value)


def output_metadata(result: dg.ExecuteInProcessResult, op: str) -> dict[str, Any]:
    (event,) = [e for e in result.events_for_node(op) if e.is_successful_output]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def rows(shown: Any) -> list[dict[str, Any]]:
    """Of a table's metadata."""
    return [record.data for record in shown.records]


def test_the_run_watches_explains_and_records(stage: Stage) -> None:
    """Timeline, map before and after, the rules, and what looked bad."""
    run = asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.answer(uuid, StatusCode.IN_PROGRESS, "Preferred Resources requested")

    def over() -> None:
        stage.world.now_ms += 900
        stage.world.fail_over_done(uuid)

    stage.world.meanwhile = [over]
    result = stage.run(audit_job("demo/1"), run.run_config)
    assert result.success
    assert result.output_for_node("watch_request") == "host-1"
    data = result.get_step_success_events()
    assert {event.node_name for event in data} == {"explain_request", "watch_request"}
    assert list(stage.world.asked) == [uuid]
    why = output_metadata(result, "explain_request")
    assert (why["signal"], why["subject"], why["request"]) == ("host-sick", "host-0", uuid)
    assert "last word is 15 s old" in why["what"]
    rules = {row["host"]: row for row in rows(why["rules"])}
    assert set(rules) == set(stage.world.host_states)
    assert not rules["host-1"]["legal"]
    assert "0-0 is on host-1" in rules["host-1"]["seen"]
    told = output_metadata(result, "watch_request")
    assert (told["request"], told["status"], told["host"]) == (uuid, "SUCCEEDED", "host-1")
    assert told["explained"] == why["what"]
    timeline = [(row["status"], row["ms since request"]) for row in rows(told["timeline_table"])]
    assert timeline == [("IN_PROGRESS", 0), ("SUCCEEDED", 900)]
    assert "Successfully started on host-1" in rows(told["timeline_table"])[-1]["message"]
    hosts = {row["host"]: row for row in rows(told["hosts_and_containers_table"])}
    assert "0 active running" in hosts["host-0"]["before"]
    assert "0 active running" not in hosts["host-0"]["after"]
    assert "0 active running" in hosts["host-1"]["after"]
    assert "before" in told["hosts_and_containers"]


def test_a_request_that_fails_fails_its_run(stage: Stage) -> None:
    """With the coordinator's words; executed again it reads the same and asks nothing."""
    run = asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.answer(uuid, StatusCode.FAILED, "no room")
    for _ in range(2):
        result = stage.run(audit_job("demo/1"), run.run_config)
        assert not result.success
        failure = result.failure_data_for_node("watch_request")
        assert failure is not None
        assert failure.user_failure_data is not None
        assert "no room" in str(failure.user_failure_data.description)
    assert list(stage.world.asked) == [uuid]


def test_a_request_that_fails_while_kafka_goes_away_still_tells_the_coordinator_s_words(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map as it is now is the only thing that isn't known."""
    run = asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.answer(uuid, StatusCode.FAILED, "no room")
    waits = PlacementClient.wait

    def away_after(self: PlacementClient, *arguments: Any, **more: Any) -> Any:
        answered = waits(self, *arguments, **more)
        stage.world.away = True
        return answered

    monkeypatch.setattr(PlacementClient, "wait", away_after)
    result = stage.run(audit_job("demo/1"), run.run_config)
    data = result.failure_data_for_node("watch_request")
    assert data is not None
    assert data.user_failure_data is not None
    assert "no room" in str(data.user_failure_data.description)
    assert "no broker answers" in str(
        data.user_failure_data.metadata["hosts_and_containers_now"].value
    )


@pytest.mark.parametrize("op", ["explain_request", "watch_request"])
def test_a_run_that_is_killed_in_an_op_is_executed_again_and_asks_nothing(
    stage: Stage, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only reads: the second execution ends as the first would have."""
    run = asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.fail_over_done(uuid)
    where = {"explain_request": "plan_own", "watch_request": "wait"}[op]

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PlacementClient, where, die)
        assert not stage.run(audit_job("demo/1"), run.run_config).success
    assert stage.run(audit_job("demo/1"), run.run_config).success
    assert list(stage.world.asked) == [uuid]


def acknowledge(stage: Stage, **config: object) -> dg.ExecuteInProcessResult:
    given = {"processor": "0", "reason": "the agent was restarted", **config}
    return stage.run(acknowledge_job("demo/1"), {"ops": {"acknowledge": {"config": given}}})


def test_an_acknowledgement_lifts_the_block(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then another failure of the group is told and left alone."""
    asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.fail_over_done(uuid)
    stage.world.words = dict.fromkeys(stage.world.words, 100)
    stage.world.words[stage.world.at["0"]] = 15_000
    for _ in range(4):
        assert "0" not in {
            run.run_config["ops"]["watch_request"]["config"]["processor"] for run in stage.tick()
        }
    told = [e.metadata["because"].value for e in stage.events if "because" in e.metadata]
    assert any(str(because).startswith("block: ") for because in told)
    assert acknowledge(stage).success
    runs = [run for _ in range(2) for run in stage.tick()]
    assert "0" in {processor for _, processor in list(stage.world.asked.values())[1:]}
    assert len(runs) >= 1


@pytest.mark.longdagster
@pytest.mark.parametrize("clock_off_ms", [-300_000, 0, 3_600_000])
@pytest.mark.parametrize("cursor_lost", [False, True])
def test_an_acknowledgement_is_about_the_block_that_stands_whatever_its_clock_says(
    stage: Stage, cursor_lost: bool, clock_off_ms: int
) -> None:
    """One from a host five minutes behind lifts it, one from an hour ahead lifts no later one."""
    stage.world.words["host-0"] = 15_000
    for number in (1, 2):
        for _ in range(8):
            stage.tick()
            for uuid in stage.world.asked:
                stage.world.answer(uuid, StatusCode.FAILED, "no room")
        assert len(stage.world.asked) == number
        looked = acknowledgement(
            "demo/1", "0", at_ms=stage.world.now_ms + clock_off_ms, who="me", why="looked"
        )
        if number == 1:
            stage.instance.report_runless_asset_event(looked)
        if cursor_lost:
            stage.cursor = None


def test_an_acknowledgement_of_nothing_lifts_nothing_later(stage: Stage) -> None:
    """What is acted on after it is another matter."""
    assert acknowledge(stage).success
    asked_run(stage)
    (uuid,) = stage.world.asked
    stage.world.answer(uuid, StatusCode.FAILED, "no room")
    for cursor in (stage.cursor, None):
        stage.cursor = cursor
        for _ in range(6):
            assert stage.tick() == []


def test_an_acknowledgement_can_be_tried_dry(stage: Stage) -> None:
    """Nothing is written; an unknown processor is refused."""
    assert acknowledge(stage, dry_run=True).success
    events = InstanceEvents(stage.instance)
    assert acknowledged(events.read().events, "demo/1") == {}
    assert not acknowledge(stage, processor="77").success
    assert acknowledge(stage).success
    assert set(acknowledged(events.read().events, "demo/1")) == {"0"}
