"""What a sensor's tick costs where the job has 1,000 containers; who reads the job does so on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import dagster as dg
import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, RESPONSE
from samza_dagster.orchestration.bounce import runs as bounce_runs
from samza_dagster.orchestration.bounce.config import BounceAction
from samza_dagster.orchestration.bounce.steering import bounce_resume_sensor
from samza_dagster.orchestration.choices import choices_sensor, hosts_of, processors_of
from samza_dagster.orchestration.history.sensor import placement_responses_sensor
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tags
from samza_dagster.placement import texts
from tests.rig.pace import PACE

pytestmark = [pytest.mark.dagster, pytest.mark.longdagster]
ACTIVES, HOSTS, REQUESTS = 500, 250, 1_000
AUTHOR = Author("host-1", "samza", 1_700_000_000_000)
ON_THE_WAY = (texts.RESOURCES_REQUESTED, texts.STANDBY_STOP_IN_PROGRESS, texts.STOP_IN_PROGRESS)
MOST_S = 2.0


@dataclass
class Fleet:
    """500 actives with a standby each on 250 hosts, as its coordinator stream has them."""

    bootstrap_servers: str
    name: str = field(default_factory=lambda: f"fleet_{uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.topic = Connection(self.bootstrap_servers, self.name).coordinator_stream_topic
        ensure_topic(KafkaCluster(self.bootstrap_servers), self.topic)
        settings = {"app.run.id": "run-1", "job.host-affinity.enabled": "true"}
        records = [stream.set_config(AUTHOR, key, value) for key, value in settings.items()]
        for number in range(ACTIVES):
            for processor, task, mode, host in (
                (f"{number}", f"Partition {number}", TaskMode.ACTIVE, number),
                (f"{number}-0", f"Standby-Partition {number}-0", TaskMode.STANDBY, number + 7),
            ):
                records += [
                    stream.set_task_container(AUTHOR, task, processor),
                    stream.set_task_mode(AUTHOR, task, mode),
                    stream.set_container_host(AUTHOR, processor, f"host-{host % HOSTS}"),
                ]
        self._produce([(record.key_bytes(), record.value) for record in records])

    @property
    def samza(self) -> SamzaClientResource:
        return SamzaClientResource(bootstrap_servers=self.bootstrap_servers, job_name=self.name)

    def respond(self, status: StatusCode, messages: Sequence[str]) -> None:
        """Each message as a status of every request, one message after the other."""
        told = [
            PlacementResponse(
                uuid=str(UUID(int=number)),
                deployment_id="run-1",
                processor_id=str(number % ACTIVES),
                destination_host=f"host-{number % HOSTS}",
                status_code=status,
                timestamp=time.time_ns() // 1_000_000,
                response_message=message,
            )
            for message in messages
            for number in range(REQUESTS)
        ]
        self._produce(
            [
                (
                    stream.encode_key(PLACEMENT_NAMESPACE, f"{one.uuid}.{RESPONSE}"),
                    one.to_json().encode(),
                )
                for one in told
            ]
        )

    def _produce(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for key, value in records:
            producer.produce(self.topic, key=key, value=value, partition=0)
        assert producer.flush(30) == 0


@pytest.fixture
def fleet(bootstrap_servers: str) -> Fleet:
    return Fleet(bootstrap_servers)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: what was recorded is the instance's."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@dataclass
class Ticks:
    """A sensor's ticks, each timed: processor time, and time on the wall."""

    instance: dg.DagsterInstance
    sensor: dg.SensorDefinition
    samza: SamzaClientResource | None = None
    cursor: str | None = None
    processor_s: list[float] = field(default_factory=list[float])
    wall_s: list[float] = field(default_factory=list[float])

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        given = {"samza": self.samza} if self.samza is not None else {}
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources=given
        ) as context:
            result = self._timed(lambda: self.sensor(context))
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        if isinstance(result, dg.SensorResult):
            self.cursor = result.cursor
        return result

    def launched(self) -> list[dg.RunRequest]:
        """A tick of a sensor that yields what it launches."""
        with dg.build_sensor_context(instance=self.instance) as context:
            told: Any = self._timed(lambda: list(self.sensor(context)))  # pyright: ignore[reportArgumentType]
        return [one for one in told if isinstance(one, dg.RunRequest)]

    def _timed(self, work: Callable[[], Any]) -> Any:
        began, began_s = time.process_time(), time.perf_counter()
        result = work()
        self.processor_s.append(time.process_time() - began)
        self.wall_s.append(time.perf_counter() - began_s)
        return result

    def judge(self) -> None:
        """The slowest by its processor time, and half of them by the clock."""
        slowest, usual = max(self.processor_s), sorted(self.wall_s)[len(self.wall_s) // 2]
        name = self.sensor.name
        print(f"{name}: {slowest:.3f} s of processor time at most, {usual:.3f} s at the median")
        assert slowest < MOST_S * PACE, self.processor_s
        assert usual < MOST_S * PACE, self.wall_s


def test_a_thousand_requests_with_several_statuses_cost_a_tick_two_seconds_at_most(
    fleet: Fleet, instance: dg.DagsterInstance
) -> None:
    """Those in flight, those that end, and the look after it; each outcome is recorded once."""
    ticks = Ticks(instance, placement_responses_sensor(), fleet.samza)
    ticks.tick()
    for message in ON_THE_WAY:
        fleet.respond(StatusCode.IN_PROGRESS, [message])
        assert not asset_events(ticks.tick())
    fleet.respond(StatusCode.SUCCEEDED, [texts.started("its host")])
    recorded: list[str] = []
    while events := asset_events(ticks.tick()):
        for event in events:
            instance.report_runless_asset_event(event)
        recorded += [str(event.metadata["request"].value) for event in events]
    assert sorted(recorded) == sorted(str(UUID(int=number)) for number in range(REQUESTS))
    ticks.judge()


def asset_events(
    result: dg.SensorResult | dg.SkipReason,
) -> list[dg.AssetMaterialization | dg.AssetObservation]:
    assert isinstance(result, dg.SensorResult)
    found = list(result.asset_events or [])
    assert not [event for event in found if isinstance(event, dg.AssetCheckEvaluation)]
    return found  # pyright: ignore[reportReturnType]


def test_a_thousand_choices_cost_a_tick_two_seconds_at_most(
    fleet: Fleet, instance: dg.DagsterInstance
) -> None:
    """All of them new, then a tenth of them gone and come, then nothing to do."""
    job = f"{fleet.name}/1"
    processors, hosts = str(processors_of(job).name), str(hosts_of(job).name)
    ticks = Ticks(instance, choices_sensor(job), fleet.samza)
    keep_current(instance, ticks.tick())
    assert len(instance.get_dynamic_partitions(processors)) == 2 * ACTIVES
    assert len(instance.get_dynamic_partitions(hosts)) == HOSTS
    for number in range(ACTIVES // 5):
        instance.delete_dynamic_partition(processors, str(number))
    instance.add_dynamic_partitions(processors, [f"gone-{n}" for n in range(ACTIVES // 5)])
    keep_current(instance, ticks.tick())
    there = set(instance.get_dynamic_partitions(processors))
    assert there == {p for n in range(ACTIVES) for p in (str(n), f"{n}-0")}
    assert isinstance(ticks.tick(), dg.SkipReason)
    ticks.judge()


def keep_current(instance: dg.DagsterInstance, result: dg.SensorResult | dg.SkipReason) -> None:
    """What the daemon does with a tick's result."""
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or []:
        name = request.partitions_def_name
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(name, key)


def bounced(
    instance: dg.DagsterInstance, number: int, root: int, state: str, told: str = ""
) -> None:
    """A run of a bounce of all containers that has ended."""
    tags = {
        **job_tags("demo/1", bounce_runs.NAME),
        bounce_runs.BOUNCE: state,
        bounce_runs.ROOT: f"bounce-{root}",
        **({bounce_runs.CONTROL: told} if told else {}),
    }
    everybody = [p for n in range(ACTIVES) for p in (str(n), f"{n}-0")]
    run = dg.DagsterRun(
        job_name=bounce_runs.NAME,
        run_id=f"bounce-{number}",
        status=dg.DagsterRunStatus.SUCCESS,
        run_config={"ops": {"plan_bounce": {"config": {"only": everybody}}}},
        tags=tags,
    )
    instance.add_run(run)


def test_a_thousand_paused_bounces_cost_a_tick_two_seconds_at_most(
    instance: dg.DagsterInstance,
) -> None:
    """All told to resume at once, each a bounce of 1,000 containers; later ticks have the rest."""
    for number in range(1_000):
        bounced(instance, number, number, bounce_runs.PAUSED, BounceAction.resume.value)
    ticks = Ticks(instance, bounce_resume_sensor("demo/1"))
    for _ in range(3):
        assert ticks.launched()
    ticks.judge()


def test_a_bounce_is_resumed_however_many_were_resumed_after_it_was_paused(
    instance: dg.DagsterInstance,
) -> None:
    """Those that a run went on with keep none waiting."""
    bounced(instance, 0, 0, bounce_runs.PAUSED, BounceAction.resume.value)
    for number in range(1, 200, 2):
        bounced(instance, number, number, bounce_runs.PAUSED, BounceAction.resume.value)
        bounced(instance, number + 1, number, bounce_runs.DONE)
    ticks = Ticks(instance, bounce_resume_sensor("demo/1"))
    launched = [request.run_key for _ in range(4) for request in ticks.launched()]
    assert "resume/bounce-0" in launched
    assert set(launched) == {"resume/bounce-0"}
