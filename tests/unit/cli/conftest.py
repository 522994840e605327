"""The commands over a job in memory: two actives, a standby each, four hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from samza_dagster.cli.main import cli
from samza_dagster.cli.options import Target
from samza_dagster.client import PlacementClient
from samza_dagster.client.state_source import TopicStateSource
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.interface import Change
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    parse_request,
)
from tests.rig.memory_store import MemoryMetadataStore

HOSTS = {"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"}
AUTHOR = Author("host-1", "samza", 1_795_264_662_000)


class NoTopics:
    def close(self) -> None:
        """Nothing to release."""

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        return {(topic, n): OffsetRange(0, 10) for topic in topics for n in (0, 1)}

    def tail(self, *_args: Any, **_options: Any) -> Iterator[TopicRecord]:
        return iter(())


@dataclass
class Commands:
    """Runs commands against one job; `answers` are what its coordinator writes to a request."""

    store: MemoryMetadataStore = field(default_factory=MemoryMetadataStore)
    answers: list[tuple[StatusCode, str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    error: Exception | KeyboardInterrupt | None = None
    state: TopicStateSource | None = None
    yarn: ResourceManager | None = None

    def __post_init__(self) -> None:
        settings = {
            "app.run.id": "run-1",
            "job.host-affinity.enabled": "true",
            "stores.s.changelog": "kafka.log",
        }
        records = [stream.set_config(AUTHOR, key, value) for key, value in settings.items()]
        for number, (processor_id, host) in enumerate(HOSTS.items()):
            standby = "-" in processor_id
            task = f"Standby-P {number % 2}-0" if standby else f"P {number % 2}"
            mode = TaskMode.STANDBY if standby else TaskMode.ACTIVE
            records += [
                stream.set_task_container(AUTHOR, task, processor_id),
                stream.set_task_mode(AUTHOR, task, mode),
                stream.set_changelog(AUTHOR, task, number % 2),
                stream.set_container_host(AUTHOR, processor_id, host),
            ]
        for record in records:
            assert record.value is not None
            self.store.put(record.namespace, record.key, record.value)
        self.store.watch({PLACEMENT_NAMESPACE}, self._answer)

    def _answer(self, change: Change) -> None:
        if not change.key.endswith(REQUEST) or change.value is None:
            return
        request = parse_request(change.value)
        for status, message in self.answers:
            response = PlacementResponse(
                uuid=request.uuid,
                deployment_id=request.deployment_id,
                processor_id=request.processor_id,
                destination_host=request.destination_host,
                status_code=status,
                timestamp=request.timestamp + 1,
                response_message=message,
            )
            key = f"{request.uuid}.{RESPONSE}"
            self.store.put(PLACEMENT_NAMESPACE, key, response.to_json().encode())

    def client(self, target: Target) -> PlacementClient:
        self.targets.append(target)
        if self.error is not None:
            raise self.error
        return PlacementClient.over(
            self.store, job_name="j", topics=NoTopics(), state=self.state, yarn=self.yarn
        )

    def run(self, *arguments: str, command: click.Command = cli) -> Result:
        return CliRunner().invoke(command, list(arguments))

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON document that the command prints, by a strict reader."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands()

    def client(target: Target) -> PlacementClient:
        return made.client(target)

    monkeypatch.setattr(Target, "client", client)
    return made


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    for name in ("BOOTSTRAP_SERVERS", "JOB_NAME", "JOB_ID", "CLIENT_CONFIG", "ZOOKEEPER"):
        monkeypatch.delenv(f"SAMZA_DAGSTER_{name}", raising=False)
    return monkeypatch.setenv
