"""The demo job: Samza's own `Joiner` from configuration alone, with hot standbys.

The Joiner keeps, per key, the parts of the newest epoch, and sends the key to `completed-keys`
when all `PARTS` are there. It throws when an epoch begins although parts of the one before are
missing, so lost state shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from samza_dagster.coordinator.deployment import plan
from samza_dagster.coordinator.samza_topics import samza_topics
from samza_dagster.metadata import connection as settings
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import TopicSpec, ensure_topics
from samza_dagster.model import JobModel
from samza_dagster.sandbox.launch import CONTAINER_MEMORY_MB
from samza_dagster.sandbox.properties import filled_in

JOB_NAME = "samza-dagster-demo"
JOB_ID = "1"
_SYSTEM = "kafka"
"""The Joiner writes to a system of this name in spite of the config."""
INPUT_TOPIC = "emitted"
OUTPUT_TOPIC = "completed-keys"
METRICS_TOPIC = "metrics"
STORE = "joiner-state"
CHANGELOG_TOPIC = f"{JOB_NAME}-{STORE}"
"""Without a dot: one in the name makes the store's offset file unreadable."""
PARTS = 2
"""Parts that complete a key's epoch; `num.partitions` of the Joiner."""
TASKS_PER_CONTAINER = 2


@dataclass(frozen=True)
class BrokerLogins:
    """Address and mechanism of the containers' logins, by which the broker fences each one."""

    servers: str
    mechanism: str
    rights_of: str
    secret_file: Path

    def config(self) -> dict[str, str]:
        """Return the additions to the job's config, without a secret."""
        config = {
            "samza.dagster.fencing": "broker",
            "samza.dagster.fencing.rights.of": self.rights_of,
            "samza.dagster.fencing.secret.file": str(self.secret_file),
        }
        for side in ("consumer", "producer"):
            prefix = f"systems.{_SYSTEM}.{side}."
            config |= {
                f"{prefix}bootstrap.servers": self.servers,
                f"{prefix}security.protocol": "SASL_PLAINTEXT",
                f"{prefix}sasl.mechanism": self.mechanism,
            }
        return config


def connection(bootstrap_servers: str, *, yarn_resource_manager: str = "") -> Connection:
    """Return the connection to the job at those brokers, and to YARN's ResourceManager if named."""
    return Connection(
        bootstrap_servers, JOB_NAME, JOB_ID, yarn_resource_manager=yarn_resource_manager
    )


def environment(
    bootstrap_servers: str, *, yarn_resource_manager: str = "", zookeeper: str = ""
) -> dict[str, str]:
    """Return the variables that name the job to the commands and to a checkout's definitions."""
    others = {settings.RESOURCE_MANAGER: yarn_resource_manager, settings.ZOOKEEPER: zookeeper}
    return {
        settings.BOOTSTRAP_SERVERS: bootstrap_servers,
        settings.JOB_NAME: JOB_NAME,
        settings.JOB_ID: JOB_ID,
        **{name: value for name, value in others.items() if value},
    }


def job_config(
    bootstrap_servers: str,
    *,
    actives: int = 2,
    standbys: int = 1,
    replicas: int = 1,
    logins: BrokerLogins | None = None,
) -> dict[str, str]:
    """Return the `job.properties` of the demo.

    `standbys` counts the replicas beside each active; `job.standbytasks.replication.factor`
    counts the active too. `replicas` is the replication of its topics, changelog and checkpoint
    included. With `logins` containers log in, and the broker can fence them.
    """
    config = filled_in(
        "demo_job.properties",
        servers=bootstrap_servers,
        name=JOB_NAME,
        id=JOB_ID,
        input=INPUT_TOPIC,
        store=STORE,
        changelog=CHANGELOG_TOPIC,
        metrics=METRICS_TOPIC,
        parts=PARTS,
        actives=actives,
        replicas=replicas,
        memory_mb=CONTAINER_MEMORY_MB,
    )
    if standbys > 0:
        config["job.standbytasks.replication.factor"] = str(standbys + 1)
        config["job.hotstandby.enabled"] = "true"
        config["job.hotstandby.replicationcount"] = str(standbys)
    if logins is not None:
        config |= logins.config()
    return config


def job_model(bootstrap_servers: str, *, actives: int = 2, standbys: int = 1) -> JobModel:
    """Return the demo's JobModel as a coordinator makes it, for runs without one."""
    config = job_config(bootstrap_servers, actives=actives, standbys=standbys)
    partitions = {INPUT_TOPIC: actives * TASKS_PER_CONTAINER}
    return plan(config, partitions, "no-coordinator").job_model


def streams(*, actives: int = 2, replicas: int = 1) -> tuple[TopicSpec, ...]:
    """Return the topics that exist before the job: input, output and metrics."""
    # One clock, the broker's own, dates what judges read: a silence of outputs is downtime.
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    tasks = actives * TASKS_PER_CONTAINER
    return (
        TopicSpec(INPUT_TOPIC, tasks, replicas, by_broker),
        TopicSpec(OUTPUT_TOPIC, tasks, replicas, by_broker),
        TopicSpec(METRICS_TOPIC, 1, replicas, {"retention.bytes": str(64 * 1024 * 1024)}),
    )


def made_topics(bootstrap_servers: str, *, actives: int = 2) -> tuple[TopicSpec, ...]:
    """Return the topics that the job's coordinator makes."""
    config = job_config(bootstrap_servers, actives=actives)
    return samza_topics(config, actives * TASKS_PER_CONTAINER)


def make_all(bootstrap_servers: str, *, actives: int = 2) -> None:
    """Make all topics, for runs without a coordinator."""
    specs = (*streams(actives=actives), *made_topics(bootstrap_servers, actives=actives))
    ensure_topics(KafkaCluster(bootstrap_servers), specs)
