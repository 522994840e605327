"""The client and its commands under Samza's own AM, as recorded, on a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.connection import Connection
from tests.rig.recorded_am import NAMESPACE, REQUEST, running

pytestmark = pytest.mark.contract


@pytest.fixture
def connection(bootstrap_servers: str) -> Connection:
    made = Connection(bootstrap_servers, f"am-{uuid.uuid4().hex[:8]}")
    ensure_topic(KafkaCluster(bootstrap_servers), made.coordinator_stream_topic)
    return made


@pytest.fixture
def client(connection: Connection) -> Iterator[PlacementClient]:
    with PlacementClient(connection) as made:
        yield made


def command(connection: Connection, *words: str) -> Any:
    """What a command prints as JSON."""
    environment = {
        **os.environ,
        "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": connection.bootstrap_servers,
        "SAMZA_DAGSTER_JOB_NAME": connection.job_name,
    }
    ran = subprocess.run(
        [sys.executable, "-m", "samza_dagster.cli.main", *words, "--json"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_move_ends_on_its_host_and_gc_clears_what_stops_the_am(
    connection: Connection, client: PlacementClient, tmp_path: Path
) -> None:
    """Somebody's request for a processor that isn't there keeps everybody's from being served."""
    with running(connection.bootstrap_servers, tmp_path, job=connection.job_name):
        asked = client.place("0", "nm3", allow_unknown_host=True).uuid
        assert client.wait(asked, timeout_s=30).status_code == "SUCCEEDED"
        assert client.view().processors["0"].host == "nm3"

        poison = str(uuid.uuid4())
        deployment = client.view().deployment_id
        request = {
            "subType": REQUEST, "uuid": poison, "deploymentId": deployment, "processorId": "7",
            "destinationHost": "nm3", "statusCode": "CREATED", "timestamp": 1,
        }  # fmt: skip
        _write(connection, f"{poison}.{REQUEST}", json.dumps(request))
        behind = str(uuid.uuid4())
        good = {**request, "uuid": behind, "processorId": "1-0", "destinationHost": "LAST_SEEN", "timestamp": 2}  # fmt: skip
        _write(connection, f"{behind}.{REQUEST}", json.dumps(good))
        assert list(command(connection, "status")["poison"]) == [f"{poison}.{REQUEST}"]
        shown = command(connection, "gc", "--dry-run")
        assert [removal["kind"] for removal in shown["removed"]] == ["record"]
        assert client.response(behind) is None
        command(connection, "gc")
        assert client.wait(behind, timeout_s=30).status_code == "SUCCEEDED"


def _write(connection: Connection, key: str, value: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": connection.bootstrap_servers})
    name = json.dumps([1, NAMESPACE, key], separators=(",", ":"))
    producer.produce(connection.coordinator_stream_topic, key=name.encode(), value=value.encode())
    assert producer.flush(20) == 0
