"""A coordinator stream in memory, our state topic beside it, and `placement_responses` on both."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import dagster as dg
import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.metadata import coordinator_stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.own_requests import read_mail
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.own_requests import RESPONSE_PREFIX, response_value
from samza_dagster.orchestration.history import placement_responses_sensor
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.memory_store import MemoryMetadataStore

AUTHOR = Author("host-1", "samza", 1_700_000_000_000)
STORES: dict[str, MemoryMetadataStore] = {}


class OwnState:
    """Our state topic: every answer to a request of our own, where it stands."""

    def __init__(self) -> None:
        self.answers: list[TopicRecord] = []
        self.end = 0
        self.deployment = "run-1"

    def respond(
        self,
        number: int,
        status: StatusCode = StatusCode.SUCCEEDED,
        text: str = "text",
        *,
        after_ms: int = 0,
        details: ResponseDetails | None = None,
    ) -> None:
        told = response(number, status, text)
        told = told.model_copy(update={"timestamp": told.timestamp + after_ms, "details": details})
        key, value = encode_record(f"{RESPONSE_PREFIX}{told.uuid}", response_value(told))
        self.answers.append(TopicRecord(key, value, told.timestamp, self.end))
        self.end += 1

    def compact(self) -> None:
        """Of each answer the newest is left."""
        self.answers = sorted({r.key: r for r in self.answers}.values(), key=lambda r: r.offset)

    def read(self) -> CoordinatorState:
        """As a client reads it."""
        answers = tuple(self.answers)
        newest = {record.key: record for record in answers}
        return CoordinatorState(self.deployment, mail=read_mail(newest.values(), answers, self.end))

    def close(self) -> None:
        """Nothing is open."""


STATE = OwnState()


def response(number: int, status: StatusCode, text: str = "text") -> PlacementResponse:
    return PlacementResponse(
        uuid=str(UUID(int=number)),
        deployment_id="run-1",
        processor_id="0",
        destination_host="host-2",
        status_code=status,
        timestamp=1_700_000_000_000 + number,
        response_message=text,
    )


class MemorySamza(SamzaClientResource):
    """The resource with its stream in memory."""

    def open_client(self) -> PlacementClient:
        store = STORES[self.bootstrap_servers]
        return PlacementClient.over(store, job_name="demo", state=STATE)


class Stream:
    """A coordinator stream, the sensor on it, and the instance that keeps its events."""

    def __init__(self, store: MemoryMetadataStore, instance: dg.DagsterInstance) -> None:
        self.store = store
        self.placement = ContainerPlacementMetadataStore(store)
        self.instance = instance
        self.cursor: str | None = None
        self.said = ""
        self.now_ms = 1_700_000_000_000
        self.events: list[Any] = []
        self.logged = ""

    def _log(self, text: str) -> None:
        self.logged += text

    def respond(
        self,
        number: int,
        status: StatusCode = StatusCode.SUCCEEDED,
        *,
        after_ms: int = 0,
        expiry_ms: int | None = None,
    ) -> None:
        told = response(number, status)
        at = {"timestamp": told.timestamp + after_ms, "request_expiry": expiry_ms}
        told = told.model_copy(update=at)
        self.placement.write_response(told)

    def tick(self, *, lost: bool = False) -> list[int]:
        """Numbers of the requests recorded; `lost`: the tick's cursor wasn't kept."""
        samza = MemorySamza(bootstrap_servers="here", job_name="demo")
        sensor = placement_responses_sensor(no_end_s=600, now_ms=lambda: self.now_ms)
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"samza": samza}
        ) as context:
            self.logged = ""
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(context.log, "warning", self._log)
                result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        for event in result.asset_events or []:
            self.instance.report_runless_asset_event(event)
        if not lost:
            self.cursor = result.cursor
        self.said = result.skip_reason.skip_message or "" if result.skip_reason else ""
        self.events = list(result.asset_events or [])
        return [UUID(str(e.metadata["request"].value)).int for e in self.events]


def under_samza(stream: Stream) -> None:
    """Samza's AM leads, whose requests are in the stream alone; the sensor has begun."""
    deploy(stream, "run-1")
    STATE.deployment = "an older one"
    stream.tick()


def deploy(stream: Stream, deployment: str) -> None:
    """A deployment of that id begins."""
    record = coordinator_stream.set_config(AUTHOR, "app.run.id", deployment)
    assert record.value is not None
    stream.store.put(record.namespace, record.key, record.value)
