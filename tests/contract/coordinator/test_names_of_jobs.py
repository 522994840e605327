"""Jobs whose names look alike: side by side and over one stream."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.errors import Refused
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic
from tests.contract.coordinator.conftest import restart
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

SMALL = {"hosts": 1, "actives": 1, "standbys": 0}


@pytest.fixture
def named(
    bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Job]]:
    """Makes small jobs of any name and id, not started; leaves nothing of them behind."""
    made: list[Job] = []

    def make(name: str, job_id: str, **options: object) -> Job:
        topic = f"input-of-{name}-{job_id}"
        ensure_topic(KafkaCluster(bootstrap_servers), topic, partitions=1)
        directory = tmp_path_factory.mktemp("job")
        asked = {**SMALL, "input_topic": topic, "job_id": job_id, **options}
        job = Job(directory, bootstrap_servers, name, **asked)  # pyright: ignore[reportArgumentType]
        made.append(job)
        return job

    yield make
    for job in made:
        job.close()


def ends(connection: Connection) -> dict[str, int]:
    """Where the job's own topics end."""
    cluster, found = KafkaCluster(connection.bootstrap_servers), dict[str, int]()
    for topic in (
        connection.coordinator_stream_topic,
        connection.state_topic,
        connection.audit_topic,
    ):
        end = TopicEnd(cluster, topic)
        try:
            found[topic] = end.offset(10.0)
        finally:
            end.close()
    return found


def leads(job: Job, epoch: int) -> None:
    until(
        f"epoch {epoch} leads",
        lambda: (now := job.status()) is not None and now["leader_epoch"] == epoch,
        seconds=40,
    )


def test_a_job_is_refused_on_the_topics_of_another(named: Callable[..., Job]) -> None:
    """`wd_v1` on what `wd-v1` leads: status 2, nothing is written, the leader is undisturbed."""
    first, second = named("wd-v1", "1", lease_ms=600_000), named("wd_v1", "1", lease_ms=600_000)
    first.start()
    leader = first.coordinator
    assert leader is not None
    leader.send_signal(signal.SIGSTOP)  # so that whatever is written meanwhile isn't its own
    at_rest = until(
        "what it had sent is there",
        lambda: now if (now := ends(first.connection)) == ends(first.connection) else None,
    )
    refused = second.start_coordinator("--take-over", "now")
    assert refused.wait(timeout=60 * PACE) == 2
    assert "is of job wd-v1, id 1" in second.coordinator_log.read_text()
    client = second.client()
    try:
        for ask in (
            lambda: client.place("0", "LAST_SEEN"),
            lambda: client.reserve("0", "host-1"),
            lambda: client.fail_over("0"),
            lambda: client.unneeded(older_than_s=0),
        ):
            with pytest.raises(Refused, match="is of job wd-v1, id 1"):
                ask()
    finally:
        client.close()
    config = str(second.directory / "job.properties")
    for command in (["status"], ["gc"], ["gc", "--logins"], ["place", "0", "--to", "LAST_SEEN"]):
        assert CliRunner().invoke(cli, [*command, "--config", config]).exit_code == 2, command
    assert ends(first.connection) == at_rest
    leader.send_signal(signal.SIGCONT)
    assert first.coordinators == [leader]
    restart(first)
