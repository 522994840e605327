"""A coordinator process with real agents: what it does with each request, and what it says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from tests.rig.job import Job, alive
from tests.rig.kill_scenarios import free_host
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("placing")


@pytest.fixture
def client(job: Job) -> Iterator[PlacementClient]:
    client = job.client()
    yield client
    client.close()


def ask(
    client: PlacementClient, processor: str, destination: str, **more: str
) -> list[PlacementResponse]:
    """Places and waits; every status that was seen."""
    seen: list[PlacementResponse] = []
    request = client.place(processor, destination, **more)
    client.wait(request.uuid, timeout_s=30 * PACE, on_response=seen.append)
    return seen


def test_the_jobs_own_settings_bound_it(job: Job, client: PlacementClient) -> None:
    """A container takes of its host what the job's config says, by the agents' own books."""
    assert client.view().container_memory_mb == 256
    used = sum(job.memory_mb - h["free_memory_mb"] for h in job.status()["hosts"].values())
    assert used == 4 * 256


def test_a_move_reserves_then_stops_then_starts(job: Job, client: PlacementClient) -> None:
    """Samza's three statuses in its words."""
    before = job.processors()["0"]
    destination = free_host(job, job.processors())
    seen = ask(client, "0", destination)
    assert [(s.status_code, s.response_message) for s in seen] == [
        (StatusCode.IN_PROGRESS, "Preferred Resources requested"),
        (StatusCode.IN_PROGRESS, "Active container stop in progress"),
        (
            StatusCode.SUCCEEDED,
            "Successfully completed the container placement action started container on host "
            + destination,
        ),
    ]
    after = job.processors()["0"]
    assert after["host"] == destination
    assert alive(after["pid"])
    assert not alive(before["pid"])
    assert after["execution_id"] != before["execution_id"]


def test_no_two_owners_were_ever_seen(job: Job) -> None:
    """The stores' own locks, over everything that this module did."""
    assert not [line for line in job.journal() if line["what"] == "VIOLATION"]


def test_a_key_that_ends_every_start_stops_nothing(job_of: Callable[..., Job]) -> None:
    """A raw request, past the client that would refuse it: BAD_REQUEST, all processes as before."""
    from confluent_kafka import Producer

    job = job_of("poisoned")
    before = job.processors()
    topic = job.connection.coordinator_stream_topic
    producer = Producer({"bootstrap.servers": job.bootstrap_servers})
    producer.produce(topic, key=b"not a json array", value=b"{}", partition=0)
    assert producer.flush(10) == 0
    status = job.status()
    assert status is not None
    request = PlacementRequest(
        uuid=str(uuid.uuid4()),
        deployment_id=status["deployment_id"],
        processor_id="0",
        destination_host="LAST_SEEN",
        timestamp=1,
    )
    stream = job.metadata()
    client = job.client()
    try:
        stream.put(
            PLACEMENT_NAMESPACE,
            f"{request.uuid}.ContainerPlacementRequestMessage",
            request.to_json().encode(),
        )
        answer = client.wait(request.uuid, timeout_s=20 * PACE)
    finally:
        stream.close()
        client.close()
    assert answer.status_code is StatusCode.BAD_REQUEST
    assert "offset" in answer.response_message
    assert job.processors() == before
