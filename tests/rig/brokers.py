"""Three brokers that a session's tests share, and what they ask of each by itself."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from samza_dagster.metadata.authorizer import Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox.broker_settings import ADMIN, MECHANISM
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.fence_broker import SECRET


@contextmanager
def three_brokers(directory: Path) -> Generator[Brokers]:
    """With an authorizer and a login for the coordinator, as `fence_broker` has one."""
    with Brokers(directory, 3, authorizer=True) as brokers:
        authorizer = Authorizer(KafkaCluster(brokers.bootstrap_servers))
        authorizer.set_login(ADMIN, SECRET, MECHANISM)
        yield brokers
