"""A job starts from its inputs alone: what it needs beside them is made, and what is wrong is refused by name."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samza_dagster.coordinator.diagnosis import findings
from samza_dagster.coordinator.fencing.examination import Condition
from samza_dagster.coordinator.samza_topics import samza_topics
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.authorizer import ALLOW, USER, AclRule, Authorizer
from samza_dagster.metadata.job_owner import Deployed, read_deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.replicas import AS_MADE, cluster_metadata, topic_configs
from samza_dagster.metadata.topics import TopicSpec, ensure_topic, ensure_topics
from samza_dagster.model import naming
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import MECHANISM
from tests.rig.job import Job
from tests.rig.kafka_tools import run
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

SETTINGS = {
    "task.checkpoint.factory": "org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory",
    "task.checkpoint.segment.bytes": "1048576",
    "stores.s.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
    "stores.s.changelog.kafka.segment.bytes": "16777216",
    "systems.kafka.default.stream.replication.factor": "1",
}


@pytest.fixture
def cluster(bootstrap_servers: str) -> KafkaCluster:
    return KafkaCluster(bootstrap_servers)


@pytest.fixture
def job(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Job]:
    """Nobody has started it yet, and the broker has its input alone."""
    name = f"new-{uuid.uuid4().hex[:8]}"
    job = Job(
        tmp_path, cluster.bootstrap_servers, name, hosts=2, actives=1,
        input_topic=f"{name}-input", settings=SETTINGS,
    )  # fmt: skip
    ensure_topic(cluster, job.input_topic, partitions=4, config={})
    yield job
    job.close()


def made_for(job: Job) -> set[str]:
    topics = cluster_metadata(KafkaCluster(job.bootstrap_servers), "look", 10).topics
    return {topic for topic in topics if job.name in topic} - {job.input_topic}


def refusal(job: Job) -> str:
    """What a coordinator says that ends by itself; no container has run."""
    coordinator = job.start_coordinator()
    assert coordinator.wait(timeout=30 * PACE) == 2, job.coordinator_log.read_text()
    said = job.coordinator_log.read_text()
    assert "Traceback" not in said
    assert read_deployed(job.connection).run_id is None
    return said


def told(job: Job, deployed: Deployed | None = None) -> list[Condition]:
    """What doctor says of the job's topics as a whole."""
    cluster = KafkaCluster(job.bootstrap_servers)
    found = findings(job.properties, cluster, deployed or Deployed())
    return [each for each in found if each.check == AS_MADE]


def test_a_job_that_nobody_deployed_before_starts(job: Job, cluster: KafkaCluster) -> None:
    """Until now each of its containers ended: no checkpoint topic and no changelog was there."""
    checkpoints = naming.checkpoint_topic(job.name, "1")
    (would,) = told(job)
    assert would.ok
    assert f"{checkpoints} (1 partition, compact)" in would.seen
    assert f"{job.name}-s (4 partitions, compact)" in would.seen
    assert made_for(job) == set(), "doctor makes none"
    job.start()
    topics = job.connection
    stream, own = topics.coordinator_stream_topic, {topics.state_topic, topics.audit_topic}
    assert made_for(job) == {stream, checkpoints, f"{job.name}-s", *own}
    configs = topic_configs(cluster, [checkpoints, f"{job.name}-s"], 10)
    assert [found and found["segment.bytes"] for found in configs.values()] == [
        "1048576",
        "16777216",
    ]
    assert all(found and found["cleanup.policy"] == "compact" for found in configs.values())
    assert len(cluster_metadata(cluster, "look", 10).topics[f"{job.name}-s"].partitions) == 4
    assert [each.ok for each in told(job, read_deployed(job.connection))] == [True]


def test_a_topic_that_is_wrong_is_refused_by_name_and_its_fix_mends_it(
    job: Job, cluster: KafkaCluster
) -> None:
    """A broker that makes topics by itself makes them so. Nothing is altered, and no container runs."""
    changelog, checkpoints = f"{job.name}-s", naming.checkpoint_topic(job.name, "1")
    ensure_topic(cluster, changelog, partitions=2)
    ensure_topic(cluster, checkpoints, config={})
    said = refusal(job)
    wrong = [each for each in told(job) if not each.ok]
    assert len(wrong) == 2
    for each in wrong:
        assert each.seen in said
        assert each.fix in said
    assert len(cluster_metadata(cluster, "look", 10).topics[changelog].partitions) == 2
    for each in wrong:
        run(each.fix)
    until("the broker knows", lambda: all(each.ok for each in told(job)))
    job.start()


def test_a_changelog_that_was_deleted_is_named_and_made_anew_at_the_next_start(
    job: Job, cluster: KafkaCluster
) -> None:
    """Samza's coordinators do the same; that the state in it is gone stands in the log."""
    job.start()
    changelog = f"{job.name}-s"
    with cluster.admin() as admin:
        admin.delete_topics([changelog])[changelog].result(30)
    until("it is gone", lambda: changelog not in made_for(job))
    (missing,) = told(job, read_deployed(job.connection))
    assert not missing.ok
    assert f"no topic {changelog}" in missing.seen
    assert f"--create --topic {changelog} --partitions 4" in missing.fix
    job.start_coordinator("--take-over", "now")
    until("it is made anew", lambda: changelog in made_for(job))
    until("it is said", lambda: f"empty: {changelog}" in job.coordinator_log.read_text())


def test_many_may_make_the_topics_of_a_job_at_once(cluster: KafkaCluster) -> None:
    """As processors that start together; each topic is made by one of them."""
    name = f"together-{uuid.uuid4().hex[:8]}"
    config = {"job.name": name, "job.default.system": "kafka", "stores.s.changelog": f"{name}-s"}
    specs = samza_topics({**config, **SETTINGS}, 4)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: ensure_topics(cluster, specs), range(6)))
    assert sorted(topic for each in made for topic in each) == sorted(spec.name for spec in specs)
    assert ensure_topics(cluster, specs) == set()


def test_a_setting_that_no_broker_knows_is_refused_before_anything_is_made(job: Job) -> None:
    job.properties["stores.s.changelog.kafka.no.such.setting"] = "1"
    job.configure()
    assert "no.such.setting" in refusal(job)
    assert "no.such.setting" in next(each.seen for each in told(job) if not each.ok)
    assert f"{job.name}-s" not in made_for(job)


def test_a_login_without_the_right_to_create_topics_is_told_which_it_lacks(broker: Broker) -> None:
    """In one line; what is there needs no such right."""
    cluster = KafkaCluster(broker.bootstrap_servers)
    authorizer = Authorizer(cluster)
    authorizer.set_login("newcomer", "p" * 32, MECHANISM)
    name = f"forbidden-{uuid.uuid4().hex[:8]}"
    rights = [AclRule(USER + "newcomer", ALLOW, "DESCRIBE", "TOPIC", name)]
    authorizer.add_rules(rights)
    authorizer.close()
    login = {"sasl.mechanism": MECHANISM, "sasl.username": "newcomer", "sasl.password": "p" * 32}
    logged_in = KafkaCluster(broker.sasl_servers, {"security.protocol": "SASL_PLAINTEXT", **login})
    rehearse: Callable[[], object] = lambda: ensure_topics(  # noqa: E731 - said twice
        logged_in, [TopicSpec(name)], rehearse=True
    )
    with pytest.raises(InvalidInput, match="no right to see or to create") as refused:
        rehearse()
    assert f"--add --topic {name} --operation Create --operation Describe" in refused.value.fix
    assert "\n" not in str(refused.value.fix)
    assert ensure_topic(cluster, name)
    assert rehearse() == set()
