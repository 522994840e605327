"""Requests that Samza's wire has no form for, on a coordinator process with real agents."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.record_writer import RecordWriter
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from tests.rig.job import ROOT, Job, alive
from tests.rig.kill_scenarios import free_host
from tests.rig.pace import PACE
from tests.rig.stream_model import job_model
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("own", hosts=4)


@pytest.fixture
def client(job: Job) -> Iterator[PlacementClient]:
    client = job.client()
    yield client
    client.close()


def end_of(client: PlacementClient, asked: str) -> PlacementResponse:
    return client.wait(asked, timeout_s=40 * PACE)


def test_a_standby_is_spun_up_outlives_the_coordinator_and_is_removed(
    job: Job, client: PlacementClient
) -> None:
    """It is in the JobModel that it is served and in the coordinator stream while it is there."""
    store = job.metadata()
    planned = job_model(store)
    destination = free_host(job, job.processors())
    asked = client.start_standby("0", destination)
    assert end_of(client, asked.uuid).status_code is StatusCode.SUCCEEDED
    running = job.wait_until_running(extra=1)
    assert running["0-1"]["host"] == destination
    model = job_model(store)
    assert set(model.containers) == {"0", "0-0", "0-1", "1", "1-0"}
    assert {t.changelog_partition for t in model.containers["0-1"].tasks.values()} == {
        t.changelog_partition for t in model.containers["0"].tasks.values()
    }
    job.kill_coordinator()
    job.start_coordinator()
    assert job.wait_until_running(extra=1)["0-1"]["pid"] == running["0-1"]["pid"]
    request = client.place("0-1", "LAST_SEEN")
    assert end_of(client, request.uuid).status_code is StatusCode.SUCCEEDED
    restarted = job.wait_until_running(extra=1)
    assert restarted["0-1"]["execution_id"] != running["0-1"]["execution_id"]
    asked = client.stop_standby("0-1")
    assert end_of(client, asked.uuid).status_code is StatusCode.SUCCEEDED
    after = job.wait_until_running()
    assert "0-1" not in after
    assert not alive(restarted["0-1"]["pid"])
    assert job_model(store) == planned
    store.close()


def write_raw(job: Job, key: bytes, value: bytes) -> None:
    """As a stranger with the right to write would."""
    cluster = KafkaCluster(job.bootstrap_servers)
    topic = job.connection.state_topic
    end = TopicEnd(cluster, topic)
    RecordWriter(cluster, topic, end, timeout_s=10 * PACE).write("write", key, value)
    end.close()


def test_what_cant_be_read_is_answered_or_ignored_and_nobody_dies(
    job: Job, client: PlacementClient
) -> None:
    """BAD_REQUEST that names the field where there is a UUID; else counted; also at a restart.

    Whatever stands under a key that is neither a request's nor the coordinator's is nobody's.
    """
    good = {
        "version": 1,
        "kind": "cancel",
        "processorId": "0",
        "destinationHost": "host-1",
        "deploymentId": client.view().deployment_id,
        "timestamp": 1,
        "refersTo": str(uuid.uuid4()),
    }
    for changed, field in (
        ({"kind": "explode"}, "kind"),
        ({"timestamp": -1}, "timestamp"),
        ({"processorId": "x" * 5000}, "processorId"),
        ({"refersTo": None}, "refersTo"),
    ):
        asked = str(uuid.uuid4())
        write_raw(job, f"request/{asked}".encode(), json.dumps({**good, **changed}).encode())
        answer = until("an answer", lambda asked=asked: client.response(asked))
        assert answer.status_code is StatusCode.BAD_REQUEST
        assert field in answer.response_message
        assert client.own_request(asked) is None
    write_raw(job, b"request/\xff\xfe", b"\x00")
    write_raw(job, b"request/none", b"{}")
    write_raw(job, b"x", b"\x00")
    write_raw(job, b"\xff", b"[" * 50_000)
    until("they are counted", lambda: job.status()["counters"].get("ignored-requests") == 4)
    store = job.metadata()
    asked = str(uuid.uuid4())
    store.put(PLACEMENT_NAMESPACE, f"{asked}.ContainerPlacementRequestMessage", b'{"uuid":1}')
    answer = until("an answer", lambda: client.response(asked))
    store.close()
    assert answer.status_code is StatusCode.BAD_REQUEST
    before = job.processors()
    job.kill_coordinator()
    job.start_coordinator()
    after = job.wait_until_running()
    assert {p: c["pid"] for p, c in after.items()} == {p: c["pid"] for p, c in before.items()}
    # Its successor reads them once it leads, beside its containers.
    until("they are counted anew", lambda: job.status()["counters"].get("ignored-requests") == 4)
    assert client.view().coordinator == "samza_dagster"


def command(job: Job, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON document of a command, as a script sees it."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "samza_dagster.cli.main", *arguments, "--json"),
            *("--bootstrap-servers", job.bootstrap_servers, "--job-name", job.name),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90 * PACE,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_commands_do_what_they_say(job: Job, client: PlacementClient) -> None:
    """Hold, look, commit; cancel of what ended; a standby and its end; cleaning."""
    destination = free_host(job, job.processors(), "1")
    code, answer = command(
        job, "place", "1", "--to", destination, "--hold", "--request-expiry", "60"
    )
    asked = answer["request"]["uuid"]
    assert code == 0
    assert answer["response"]["responseMessage"].startswith("Reserved on host")
    code, answer = command(job, "status", "1")
    assert [a["stage"] for a in answer["actions"]] == ["held"]
    code, answer = command(job, "commit", asked)
    assert (code, answer["response"]["statusCode"]) == (0, "SUCCEEDED")
    code, answer = command(job, "status", asked)
    assert (code, answer["response"]["destinationHost"]) == (0, destination)
    code, answer = command(job, "cancel", asked)
    assert (code, answer["error"]) == (2, "Refused")
    code, answer = command(job, "control-standby", "start", "1", "--dry-run")
    assert (code, answer["processor_id"], answer["kind"]) == (0, "1-1", "start-standby")
    code, answer = command(job, "control-standby", "start", "1")
    assert (code, answer["response"]["statusCode"]) == (0, "SUCCEEDED")
    code, answer = command(job, "control-standby", "stop", "1-1")
    assert (code, answer["response"]["statusCode"]) == (0, "SUCCEEDED")
    code, answer = command(job, "gc", "--older-than", "0s", "--dry-run")
    assert asked in {message["uuid"] for message in answer["removed"]}
    code, answer = command(job, "gc", "--older-than", "0s")
    assert code == 0
    assert client.response(asked) is None
    assert job.wait_until_running()
