"""One broker for the level, and one with an authorizer; a job per module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import ADMIN, MECHANISM
from tests.rig.fence_broker import SECRET, config_of, fence_broker
from tests.rig.job import Job
from tests.rig.kill_points import CRASHING, KilledJob
from tests.rig.kill_scenarios import SETTINGS
from tests.rig.pace import PACE
from tests.rig.running_job import RunningJob


def restart(job: RunningJob, processor_id: str = "0", within_s: float = 30.0) -> None:
    """Asks for a restart in place, which needs commits of the leader and an agent, and awaits it."""
    with job.client() as client:
        request = client.place(processor_id, "LAST_SEEN", request_expiry_s=within_s * PACE)
        assert client.wait(request.uuid, timeout_s=within_s * PACE).status_code == "SUCCEEDED"


@pytest.fixture(scope="module")
def job_of(
    bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Job]]:
    """Makes jobs with stub containers and leaves nothing of them behind."""
    made: list[Job] = []

    def make(name: str, **options: Any) -> Job:
        directory: Path = tmp_path_factory.mktemp(name)
        job = Job(directory, bootstrap_servers, name, input_topic=f"{name}-input", **options)
        ensure_topic(KafkaCluster(bootstrap_servers), job.input_topic, partitions=4)
        made.append(job)
        return job.start()

    yield make
    for job in made:
        job.close()


@pytest.fixture
def killed_job(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[..., KilledJob]]:
    """Jobs whose coordinators can be killed at any point, one more waiting beside each."""
    made: list[Job] = []

    def make(name: str, **options: int) -> KilledJob:
        name = f"killed-{name}"
        job = Job(
            tmp_path / name,
            bootstrap_servers,
            name,
            input_topic=f"{name}-input",
            coordinator_module=CRASHING,
            settings=SETTINGS,
            **options,
        )
        made.append(job)
        ensure_topic(KafkaCluster(bootstrap_servers), job.input_topic, partitions=4)
        killed = KilledJob(job.start())
        killed.wait_beside()
        return killed

    yield make
    for job in made:
        job.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With an authorizer, and a login for the coordinator."""
    with fence_broker(tmp_path_factory.mktemp("fence")) as broker:
        yield broker


@pytest.fixture
def principals(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Principals:
    """Those of a job of this test alone."""
    name = f"fence-{abs(hash(request.node.name)) % 10**8}"
    found = Principals.of(config_of(broker, name, tmp_path))
    assert found is not None
    return found


@pytest.fixture
def cluster(broker: Broker) -> KafkaCluster:
    """As the coordinator logs in."""
    login = {"sasl.username": ADMIN, "sasl.password": SECRET, "sasl.mechanism": MECHANISM}
    return KafkaCluster(broker.sasl_servers, {"security.protocol": "SASL_PLAINTEXT", **login})
