"""A job of 1,000 containers on a real broker, and a sensor's ticks over it, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import dagster as dg

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, RESPONSE
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.pace import PACE

ACTIVES, HOSTS, REQUESTS = 500, 250, 1_000
AUTHOR = Author("host-1", "samza", 1_700_000_000_000)
MOST_S = 2.0


@dataclass(frozen=True)
class Member:
    """One container and its one task, on its host."""

    number: int
    processor: str
    task: str
    mode: TaskMode
    host: str


def members() -> list[Member]:
    """500 actives with a standby each on 250 hosts."""
    return [
        Member(number, processor, task, mode, f"host-{host % HOSTS}")
        for number in range(ACTIVES)
        for processor, task, mode, host in (
            (f"{number}", f"Partition {number}", TaskMode.ACTIVE, number),
            (f"{number}-0", f"Standby-Partition {number}-0", TaskMode.STANDBY, number + 7),
        )
    ]


@dataclass
class Fleet:
    """Those containers, as the job's coordinator stream has them."""

    bootstrap_servers: str
    name: str = field(default_factory=lambda: f"fleet_{uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.topic = self.connection.coordinator_stream_topic
        ensure_topic(self.cluster, self.topic)
        records = [stream.set_config(AUTHOR, *setting) for setting in self.config().items()]
        for member in members():
            records += self.records_of(member)
        self.produce(self.topic, [(record.key_bytes(), record.value) for record in records])

    @property
    def connection(self) -> Connection:
        return Connection(self.bootstrap_servers, self.name)

    @property
    def cluster(self) -> KafkaCluster:
        return KafkaCluster(self.bootstrap_servers)

    @property
    def samza(self) -> SamzaClientResource:
        return SamzaClientResource(bootstrap_servers=self.bootstrap_servers, job_name=self.name)

    def config(self) -> dict[str, str]:
        return {"app.run.id": "run-1", "job.host-affinity.enabled": "true"}

    def records_of(self, member: Member) -> list[StreamRecord]:
        return [
            stream.set_task_container(AUTHOR, member.task, member.processor),
            stream.set_task_mode(AUTHOR, member.task, member.mode),
            stream.set_container_host(AUTHOR, member.processor, member.host),
        ]

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
        self.produce(
            self.topic,
            [
                (
                    stream.encode_key(PLACEMENT_NAMESPACE, f"{one.uuid}.{RESPONSE}"),
                    one.to_json().encode(),
                )
                for one in told
            ],
        )

    def produce(
        self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]], partition: int = 0
    ) -> None:
        self.spread(topic, [(partition, key, value) for key, value in records])

    def spread(self, topic: str, records: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        """Each to its own partition."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for partition, key, value in records:
            producer.produce(topic, key=key, value=value, partition=partition)
        assert producer.flush(30 * PACE) == 0


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
        """What a tick launches."""
        result = self.tick()
        return list(result.run_requests or []) if isinstance(result, dg.SensorResult) else []

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
        print(f"by the clock, in turn: {', '.join(f'{s:.2f}' for s in self.wall_s)} s; pace {PACE}")
        assert slowest < MOST_S * PACE, self.processor_s
        assert usual < MOST_S * PACE, self.wall_s
