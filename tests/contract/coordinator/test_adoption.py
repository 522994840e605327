"""A job that Samza's own Application Master has deployed, and a coordinator of ours that is started on it."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_owner import read_deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic, retained
from samza_dagster.sandbox import kafka_client
from tests.contract.coordinator.test_names_of_jobs import leads
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.task_report import task_report

pytestmark = pytest.mark.contract

MASTER = Author("nm3", "samza", 1_795_264_662_000)
METRICS = "metrics-of-many-jobs"


@pytest.fixture
def job(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A job whose stream has what the Application Master wrote; nothing of ours is there."""
    name = f"adopted-{time.time_ns()}"
    cluster = KafkaCluster(bootstrap_servers)
    ensure_topic(cluster, f"input-of-{name}", partitions=1)
    ensure_topic(cluster, METRICS, partitions=1, config=retained(3_600_000))
    made = Job(
        *(tmp_path_factory.mktemp("job"), bootstrap_servers, name),
        hosts=1,
        actives=1,
        standbys=0,
        input_topic=f"input-of-{name}",
    )
    ensure_topic(cluster, made.connection.coordinator_stream_topic)
    deploy(made, **{"metrics.reporters": "snapshot", "metrics.reporter.snapshot.interval": "1"})
    yield made
    made.close()


def deploy(job: Job, run_id: str = "1795264662000-0a0a0a0a", **more: str) -> None:
    """What the Application Master writes when it deploys the job."""
    config = {
        "job.name": job.connection.job_name,
        "job.id": job.connection.job_id,
        "app.run.id": run_id,
        "metrics.reporter.snapshot.stream": f"kafka.{METRICS}",
        **more,
    }
    records = [stream.set_config(MASTER, key, value) for key, value in config.items()]
    pairs = [(record.key_bytes(), record.value) for record in records]
    produce(job, job.connection.coordinator_stream_topic, pairs)


def produce(job: Job, topic: str, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = kafka_client.producer(job.connection.bootstrap_servers)
    for key, value in pairs:
        producer.produce(topic, value, key)
    assert producer.flush(20) == 0


def report(of: str) -> bytes:
    """Of a task of that job."""
    return task_report(of, "Partition 0", {}, host="nm2", at_ms=1)


def stream_end(job: Job) -> int:
    cluster = KafkaCluster(job.connection.bootstrap_servers)
    with closing(TopicEnd(cluster, job.connection.coordinator_stream_topic)) as end:
        return end.offset(10.0)


def refused(job: Job, *options: str) -> str:
    """What a coordinator says that ends with status 2, having written nothing."""
    before = stream_end(job)
    assert job.start_coordinator(*options).wait(timeout=60 * PACE) == 2
    assert stream_end(job) == before
    return job.coordinator_log.read_text()


@pytest.mark.parametrize(
    "how", [(), pytest.param(("--take-over", "now"), marks=pytest.mark.longcontract)]
)
def test_another_coordinators_job_is_left_to_it(job: Job, how: tuple[str, ...]) -> None:
    told = refused(job, *how)
    assert "deployment 1795264662000-0a0a0a0a, none was ever ours" in told
    assert "--adopt" in told


def test_one_that_has_ended_is_adopted_when_told_to(job: Job) -> None:
    """Another job's reports in the same topic are no sign of its life."""
    produce(job, METRICS, [(None, report(job.connection.job_name))])  # from before
    with reports(job, "another-job"):
        job.start_coordinator("--adopt")
        leads(job, 1)
    job.kill_coordinator()
    job.start_coordinator()  # it is ours now
    leads(job, 2)


@pytest.mark.longcontract
def test_one_whose_containers_report_isnt_adopted(job: Job) -> None:
    with reports(job, job.connection.job_name):
        assert "1 of its tasks report, on nm2" in refused(job, "--adopt")


@pytest.mark.longcontract
def test_one_whose_application_master_answers_isnt_adopted(job: Job) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/no-such-page"
    try:
        deploy(job, **{"yarn.am.tracking.url": url})
        assert f"its Application Master answers at {url}" in refused(job, "--adopt")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.longcontract
def test_a_job_that_went_back_to_its_application_master_is_its_own_again(job: Job) -> None:
    """The user tried ours, ended it and submitted the job anew."""
    job.start_coordinator("--adopt")
    leads(job, 1)
    job.kill_coordinator()
    deploy(job, "1795264999000-0b0b0b0b")
    told = refused(job)
    assert "deployment 1795264999000-0b0b0b0b, ours was " in told


@pytest.mark.longcontract
def test_a_job_that_comes_back_a_second_time_is_deployed_anew(job: Job) -> None:
    """With the config of the first time: clients would take a deployment that went on for Samza's."""
    job.start_coordinator("--adopt")
    leads(job, 1)
    job.kill_coordinator()
    deploy(job, "1795264999000-0b0b0b0b")
    job.start_coordinator("--adopt")
    leads(job, 2)
    assert read_deployed(job.connection).is_ours


class reports:  # noqa: N801 - it reads as what it does
    """A task of that job reports four times a second, until the block has ended."""

    def __init__(self, job: Job, of: str) -> None:
        self._job, self._of, self._over = job, of, threading.Event()
        self._thread = threading.Thread(target=self._go)

    def _go(self) -> None:
        while not self._over.wait(0.25):
            produce(self._job, METRICS, [(None, report(self._of))])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()
