"""A newcomer that can't lead ends nobody who does: it is refused before it takes over, or takes it back."""

from __future__ import annotations

import json
import random
import socket
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.candidacy import claim_of_this_process
from samza_dagster.metadata.authorizer import ALLOW, AclRule, Authorizer
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import TAKE_OVER
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import transactional_id
from samza_dagster.sandbox.broker_settings import MECHANISM
from tests.contract.coordinator.conftest import restart
from tests.rig.fence_broker import SECRET, fence_broker
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

NOW = ("--take-over", "now")
NEWCOMER = "other-coordinator"


def incompressible(size: int) -> str:
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=size))


CONFIGS = {
    "more containers than tasks": ({"job.container.count": "99"}, "at most 4"),
    "no container": ({"job.container.count": "0"}, "job.container.count"),
    "no number of containers": ({"job.container.count": "two"}, "job.container.count"),
    "a setting that only the cleaning reads": ({"samza.dagster.clean.after.ms": "soon"}, "clean"),
    "a value larger than brokers take": ({"task.opts": incompressible(1_200_000)}, "1000000"),
}


def ends_of(job: Job) -> dict[str, int]:
    """Where the topics end that a leader without work doesn't write to."""
    found: dict[str, int] = {}
    for topic in (job.connection.coordinator_stream_topic, job.connection.audit_topic):
        end = TopicEnd(KafkaCluster(job.bootstrap_servers), topic)
        found[topic] = end.offset(10)
        end.close()
    return found


def newcomers_log(job: Job, from_size: int) -> str:
    return job.coordinator_log.read_text()[from_size:]


def epoch_of(job: Job) -> int:
    status = job.status()
    return 0 if status is None else status["leader_epoch"]


def marks_of(job: Job) -> list[dict[str, Any]]:
    """Of all take-overs, as an outside consumer reads them."""
    records = records_of(job.connection, job.connection.state_topic)
    return [json.loads(value) for key, value in records if key == TAKE_OVER.encode() and value]


def require_refused_and_unnoticed(job: Job, *options: str, why: str) -> None:
    """The newcomer ends by itself, and neither the leader nor any topic knows of it."""
    older = job.coordinators[0]
    status, ends, marks = job.status(), ends_of(job), marks_of(job)
    size = job.coordinator_log.stat().st_size
    newcomer = job.start_coordinator(*options)
    assert newcomer.wait(timeout=30 * PACE) == 2, newcomers_log(job, size)
    assert why in newcomers_log(job, size)
    assert "Traceback" not in newcomers_log(job, size)
    assert ends_of(job) == ends
    assert marks_of(job) == marks
    after = job.status()
    assert status is not None
    assert after is not None
    assert after["leader_epoch"] == status["leader_epoch"]
    assert {p: c["pid"] for p, c in after["processors"].items()} == {
        p: c["pid"] for p, c in status["processors"].items()
    }
    assert job.coordinators == [older]


@pytest.fixture(scope="module")
def led(job_of: Callable[..., Job]) -> Job:
    """A job whose leader goes through all of this undisturbed."""
    return job_of("led", hosts=2, actives=1)


@pytest.mark.parametrize("fault", CONFIGS)
def test_a_config_that_can_not_be_led_ends_no_leader(led: Job, fault: str) -> None:
    """`--take-over now`: refused before the leader is fenced; it goes on in its epoch."""
    changes, why = CONFIGS[fault]
    before = dict(led.properties)
    led.properties |= changes
    led.configure()
    try:
        require_refused_and_unnoticed(led, *NOW, why=why)
    finally:
        led.properties = before
        led.configure()


@pytest.mark.parametrize("options", [NOW, ()])
def test_what_a_leader_needs_of_its_own_machine_is_tried_before(
    led: Job, options: tuple[str, ...], tmp_path: Path
) -> None:
    """Its address, the URL file, the recording: also before it waits for its turn."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        require_refused_and_unnoticed(led, *options, "--listen", address, why=address)
    url_file = tmp_path / "file" / "coordinator.url"
    url_file.parent.write_text("no directory")
    require_refused_and_unnoticed(led, *options, "--url-file", str(url_file), why="URL file")
    full = ("--record-events", "/dev/full")
    require_refused_and_unnoticed(led, *options, *full, why="record events")


def test_the_leader_of_all_these_newcomers_serves_on(led: Job) -> None:
    """In its first epoch, by the process that began."""
    assert epoch_of(led) == 1
    restart(led)


def test_one_that_may_not_write_the_state_ends_no_leader(tmp_path: Path) -> None:
    """Rights are looked up; nothing is tried out."""
    with fence_broker(tmp_path) as broker:
        cluster = KafkaCluster(broker.bootstrap_servers)
        job = Job(
            tmp_path / "job", broker.bootstrap_servers, "rights", hosts=1, actives=1, standbys=0
        )
        ensure_topic(cluster, job.input_topic, partitions=4)
        try:
            job.start()
            allow_all_but_the_state(cluster, job)
            login = tmp_path / "newcomer.properties"
            login.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n"
                f"sasl.username={NEWCOMER}\nsasl.password={SECRET}\n"
            )
            job.environment[CLIENT_CONFIG] = str(login)
            for side in ("consumer", "producer"):
                job.properties[f"systems.kafka.{side}.bootstrap.servers"] = broker.sasl_servers
            job.configure()
            why = f"no WRITE on {job.connection.state_topic}"
            require_refused_and_unnoticed(job, *NOW, why=why)
        finally:
            job.close()


def allow_all_but_the_state(cluster: KafkaCluster, job: Job) -> None:
    """Everything that a coordinator needs, except WRITE on the state topic."""
    authorizer = Authorizer(cluster)
    authorizer.set_login(NEWCOMER, SECRET, MECHANISM)
    topics = job.connection
    rights = {
        topics.state_topic: ("READ", "CREATE", "DESCRIBE_CONFIGS"),
        topics.coordinator_stream_topic: ("READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS"),
        topics.audit_topic: ("READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS"),
        job.input_topic: ("READ",),
    }
    who = f"User:{NEWCOMER}"
    rules = [AclRule(who, ALLOW, what, "TOPIC", t) for t, each in rights.items() for what in each]
    ours = transactional_id(job.name, "1")
    rules.append(AclRule(who, ALLOW, "WRITE", "TRANSACTIONAL_ID", ours))
    authorizer.add_rules(rules)
    authorizer.close()


@pytest.mark.longcontract
def test_one_that_finds_behind_the_fence_that_it_can_not_lead_gives_it_back(
    job_of: Callable[..., Job], tmp_path: Path
) -> None:
    """Its client compresses, so only the broker can tell that a record is too large. The former
    leader leads again within its lease; containers keep their process ids, nothing is half written.
    """
    job = job_of("given-back", hosts=2, actives=1)
    older, before, config = job.coordinator, job.processors(), dict(job.properties)
    lz4 = tmp_path / "lz4.properties"
    lz4.write_text("compression.type=lz4\nmessage.max.bytes=4000000\n")
    job.environment[CLIENT_CONFIG] = str(lz4)
    job.properties["task.opts"] = incompressible(1_200_000)
    job.configure()
    size = job.coordinator_log.stat().st_size
    newcomer = job.start_coordinator(*NOW)
    assert newcomer.wait(timeout=30 * PACE) == 2
    told = newcomers_log(job, size)
    assert "took over and doesn't lead" in told
    assert [mark["ended"] for mark in marks_of(job)[:3]] == [False, False, True]
    job.properties = config
    job.configure()
    until("the former leads again", lambda: epoch_of(job) == 2, seconds=job.lease_ms / 1000 / PACE)
    after = job.wait_until_running()
    assert {p: c["pid"] for p, c in after.items()} == {p: c["pid"] for p, c in before.items()}
    assert job.coordinators == [older]
    stream = records_of(job.connection, job.connection.coordinator_stream_topic)
    assert not [key for key, _ in stream if b"task.opts" in key]
    restart(job)


def test_a_leader_whose_successor_died_before_it_led_leads_again(
    job_of: Callable[..., Job],
) -> None:
    """By the same process, in the next epoch; its containers don't notice."""
    job = job_of("died-on-the-way", hosts=1, actives=1, standbys=0)
    older, before = job.coordinator, job.processors()
    rival = StateWriter(
        job.bootstrap_servers, job.connection.state_topic, transactional_id(job.name, "1")
    )
    claim = claim_of_this_process()
    rival.take_over(claim={**claim, "process": {**claim["process"], "pid": 2**22 + 1}})
    rival.close()
    until("the former leads again", lambda: epoch_of(job) == 2, seconds=job.lease_ms / 1000 / PACE)
    restart(job)
    after = job.wait_until_running()
    assert job.coordinators == [older]
    assert before.keys() == after.keys()
