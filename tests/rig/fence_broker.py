"""Brokers that can shut a container out, and jobs there that have them do so.

Its plain listener is an outside judge's; coordinators log in at the other one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from samza_dagster.metadata.authorizer import ALLOW, AclRule, Authorizer
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model import naming
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import ADMIN, MECHANISM
from samza_dagster.sandbox.brokers import Brokers
from samza_dagster.sandbox.demo_job import BrokerLogins
from samza_dagster.sandbox.logins import LoginFiles
from tests.rig.job import Job

RIGHTS_OF = "User:the-job"
SECRET = "s" * 32
_Brokers = TypeVar("_Brokers", Broker, Brokers)


def fence_broker(directory: Path) -> AbstractContextManager[Broker]:
    """One, with an authorizer and a login for the coordinator."""
    return _with_login(Broker(directory, authorizer=True))


def three_brokers(directory: Path) -> AbstractContextManager[Brokers]:
    """The same of three."""
    return _with_login(Brokers(directory, 3, authorizer=True))


@contextmanager
def _with_login(brokers: _Brokers) -> Generator[_Brokers]:
    with brokers:
        Authorizer(KafkaCluster(brokers.bootstrap_servers)).set_login(ADMIN, SECRET, MECHANISM)
        yield brokers


def settings_of(broker: Broker | Brokers, directory: Path, *, servers: str = "") -> dict[str, str]:
    """What a job's config says of the fence."""
    files = _written(directory)
    found = BrokerLogins(servers or broker.sasl_servers, MECHANISM, RIGHTS_OF, files.secret)
    return found.config()


def client_file(directory: Path) -> Path:
    """How the coordinator logs in, for `CLIENT_CONFIG`."""
    return _written(directory).client_config


def _written(directory: Path) -> LoginFiles:
    files = LoginFiles(directory)
    files.write(SECRET, SECRET)
    return files


def config_of(
    broker: Broker | Brokers,
    name: str,
    directory: Path,
    *,
    partitions: int = 1,
    store_partitions: int = 1,
) -> dict[str, str]:
    """A job with one store and one input; its topics exist, and may be used."""
    config = {
        "job.name": name,
        "job.id": "1",
        "job.default.system": "kafka",
        "job.coordinator.system": "kafka",
        "systems.kafka.samza.factory": "org.apache.samza.system.kafka.KafkaSystemFactory",
        "task.inputs": f"kafka.{name}-input",
        "stores.s.changelog": f"kafka.{name}-s",
        **settings_of(broker, directory),
    }
    topics = {
        f"{name}-input": partitions,
        f"{name}-s": store_partitions,
        naming.coordinator_stream_topic(name, "1"): 1,
    }
    cluster = KafkaCluster(broker.bootstrap_servers)
    replicas = len(broker.nodes) if isinstance(broker, Brokers) else None
    for topic, count in topics.items():
        ensure_topic(cluster, topic, partitions=count, replicas=replicas)
    Authorizer(cluster).add_rules(
        [AclRule(RIGHTS_OF, ALLOW, what, "TOPIC", t) for t in topics for what in ("READ", "WRITE")]
    )
    return config


def fenced_job(
    broker: Broker | Brokers,
    directory: Path,
    name: str,
    *,
    partitions: int = 1,
    settings: dict[str, str] | None = None,
    **options: Any,
) -> Job:
    """A job of stubs whose lost containers the brokers shut out; `directory` is its alone."""
    config_of(broker, name, directory, partitions=partitions)
    return Job(
        directory / "job",
        broker.bootstrap_servers,
        name,
        input_topic=f"{name}-input",
        settings={**settings_of(broker, directory), **(settings or {})},
        environment={CLIENT_CONFIG: str(client_file(directory))},
        **options,
    )
