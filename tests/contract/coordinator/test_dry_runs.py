"""Dry runs of the Dagster jobs on a real broker: no topic is longer after them, and none is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from samza_dagster import SamzaJobComponent
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import state_topic
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch.auto_failover import acknowledge_job
from samza_dagster.sandbox.broker import Broker
from tests.rig.job import Job
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract
NAME = "dry"
ACTIVE, STANDBY = {"processor": "0"}, {"processor": "0-0"}
ASKS: dict[str, dict[str, Any]] = {
    "move_with_standby": ACTIVE,
    "fail_over": ACTIVE,
    "move_container": {**ACTIVE, "destination": "ANY_HOST"},
    "restart_container": ACTIVE,
    "relocate_standby": STANDBY,
    "spin_up_standby": ACTIVE,
    "move_via_new_standby": ACTIVE,
    "drain_host": {"cold": True},
    "rolling_bounce": {},
    "acknowledge_failover": {**ACTIVE, "reason": "looked at"},
}

ONLY_READ = frozenset(
    {
        "look_at_fleet",
        "snapshot_assets",
    }
)
"""Jobs without a dry run: they ask nothing of the Samza job in any run."""


def ends_of(connection: Connection) -> dict[tuple[str, int], int]:
    """(topic, partition) → end offset of every topic of the broker, Kafka's own ones too."""
    from confluent_kafka import Consumer, TopicPartition

    servers = {"bootstrap.servers": connection.bootstrap_servers, "group.id": "watch"}
    watch = Consumer(servers)
    try:
        return {
            (name, number): watch.get_watermark_offsets(TopicPartition(name, number), 10 * PACE)[1]
            for name, topic in watch.list_topics(timeout=10 * PACE).topics.items()
            for number in topic.partitions
        }
    finally:
        watch.close()


def own_topics(job: Job) -> tuple[str, str]:
    """Where a request would be written: Samza's stream and ours."""
    return job.connection.coordinator_stream_topic, state_topic(NAME, "1")


def jobs() -> list[dg.JobDefinition]:
    """Those whose runs are watched."""
    return [*placement_jobs(f"{NAME}/1"), acknowledge_job(f"{NAME}/1")]


def asking_op(job: dg.JobDefinition) -> str | None:
    """The op whose config has `dry_run`."""
    for op in job.graph.iterate_op_defs():
        if "dry_run" in getattr(op.config_schema.config_type, "fields", {}):
            return op.name
    return None


@pytest.fixture(scope="module")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker on which nobody else writes meanwhile."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    """Two actives with a standby each run; their coordinator has stopped, so nobody else writes."""
    settings = {"metrics.reporters": "all", "metrics.reporter.all.stream": f"kafka.{NAME}-metrics"}
    job = job_of(NAME, hosts=5, settings=settings)
    ensure_topic(KafkaCluster(job.bootstrap_servers), f"{NAME}-s", partitions=4)
    assert job.coordinator is not None
    job.coordinator.terminate()
    job.coordinator.wait(timeout=20 * PACE)
    return job


@pytest.fixture(scope="module")
def definitions(job: Job) -> dg.Definitions:
    return dg.Definitions(
        jobs=jobs(),
        resources={
            "samza": SamzaClientResource(
                bootstrap_servers=job.bootstrap_servers, job_name=NAME, job_id="1"
            ),
            "samza_policies": PlacementPolicies(),
        },
    )


def test_every_job_has_a_dry_run_that_is_watched_or_only_reads() -> None:
    """All that a component has for a person to launch; a job that is added as well."""
    component = SamzaJobComponent(bootstrap_servers="none:9092", app_name=NAME)
    made = dg.build_defs_for_component(component).get_repository_def().get_all_jobs()
    launched = {job.name: asking_op(job) for job in made if not job.name.startswith("__")}
    assert {name for name, op in launched.items() if op} == set(ASKS)
    assert {name for name, op in launched.items() if not op} == ONLY_READ


@pytest.mark.parametrize("name", ASKS)
def test_a_dry_run_writes_nothing(job: Job, definitions: dg.Definitions, name: str) -> None:
    """It shows its plan from what the coordinator has left in its topics."""
    client = job.client()
    hosts = {pid: str(p.host) for pid, p in client.view().processors.items()}
    client.close()
    ask = {**ASKS[name], "dry_run": True, **({"host": hosts["0"]} if name == "drain_host" else {})}
    made = definitions.get_job_def(name)
    with dg.DagsterInstance.ephemeral() as instance:
        before = ends_of(job.connection)
        result = made.execute_in_process(
            run_config={"ops": {str(asking_op(made)): {"config": ask}}}, instance=instance
        )
    assert result.success
    assert len({topic for topic, _ in before} & {*own_topics(job)}) == 2
    assert ends_of(job.connection) == before


def test_a_run_that_isn_t_dry_is_seen_by_the_same_watch(
    job: Job, definitions: dg.Definitions
) -> None:
    """Its request is written though nobody answers: the run's patience is a second."""
    before = ends_of(job.connection)
    ask = {"ops": {"plan_fail_over": {"config": {**ACTIVE, "timeout_s": 1}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        made = definitions.get_job_def("fail_over")
        result = made.execute_in_process(run_config=ask, instance=instance, raise_on_error=False)
    assert not result.success
    assert ends_of(job.connection) != before
