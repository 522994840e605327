"""A coordinator process with real agents: what it does with each request, and what it says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from tests.rig.job import Job, alive
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("placing")


@pytest.fixture
def client(job: Job) -> Iterator[PlacementClient]:
    client = job.client()
    yield client
    client.close()


@pytest.fixture
def stream(job: Job) -> Iterator[KafkaMetadataStore]:
    """The coordinator stream, for records that a client would never write."""
    store = job.metadata()
    yield store
    store.close()


def free_host(job: Job, processor: str) -> str:
    """A host without any container of the processor's group."""
    taken = {p["host"] for pid, p in job.processors().items() if pid.split("-")[0] == processor[0]}
    return next(host for host in job.host_names if host not in taken)


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


def test_a_fresh_job_keeps_actives_and_their_standbys_apart(job: Job) -> None:
    """Four containers, live by the kernel's word, no group with two on one host."""
    processors = job.processors()
    assert set(processors) == {"0", "0-0", "1", "1-0"}
    assert all(alive(p["pid"]) for p in processors.values())
    for group in "01":
        assert processors[group]["host"] != processors[f"{group}-0"]["host"]


def test_a_move_reserves_then_stops_then_starts(job: Job, client: PlacementClient) -> None:
    """Samza's three statuses in its words."""
    before = job.processors()["0"]
    destination = free_host(job, "0")
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


def test_the_same_uuid_acts_once(
    job: Job, client: PlacementClient, stream: KafkaMetadataStore
) -> None:
    """A duplicate changes nothing: the first outcome stands, the containers stay."""
    first = ask(client, "1-0", "LAST_SEEN")[-1]
    pid = job.processors()["1-0"]["pid"]
    stream.put(
        PLACEMENT_NAMESPACE,
        f"{first.uuid}.ContainerPlacementRequestMessage",
        PlacementRequest(
            uuid=first.uuid,
            deployment_id=first.deployment_id,
            processor_id="1-0",
            destination_host="LAST_SEEN",
            timestamp=first.timestamp,
        )
        .to_json()
        .encode(),
    )
    until(
        "the duplicate is tombstoned",
        lambda: client.request(first.uuid) is None,
        seconds=10,
    )
    assert client.response(first.uuid) == first
    assert job.processors()["1-0"]["pid"] == pid


def test_a_start_that_fails_at_the_destination_ends_on_the_source(
    job: Job, client: PlacementClient
) -> None:
    """FAILED in Samza's words, and the container runs again where it was."""
    source = job.processors()["0"]["host"]
    destination = free_host(job, "0")
    broken = job.state_dir(destination) / "refuse-starts"
    broken.touch()
    try:
        seen = ask(client, "0", destination)
        assert seen[-1].status_code is StatusCode.FAILED
        assert seen[-1].response_message.startswith(
            f"failed to start container on destination host {destination}, "
            f"attempting to start on source host {source}"
        )
        running = job.wait_until_running()
        assert running["0"]["host"] == source
    finally:
        broken.unlink()


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
