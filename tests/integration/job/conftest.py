"""One sandbox with real Samza containers for all scenarios of this level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import demo_sandbox

LEASE_S, SILENCE_S = 15, 5
"""A lost host's containers are replaced after so long: shorter than a job would have it."""
SETTINGS = {
    "samza.dagster.lease.ms": str(LEASE_S * 1000),
    "samza.dagster.host.timeout.ms": str(SILENCE_S * 1000),
}


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """All of this level's own."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes"), SETTINGS) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def servers(sandbox: Sandbox) -> str:
    return str(sandbox.status()["bootstrap_servers"])


@pytest.fixture(scope="session")
def client(servers: str) -> Iterator[PlacementClient]:
    client = PlacementClient(Connection(servers, demo_job.JOB_NAME, demo_job.JOB_ID))
    yield client
    client.close()


@pytest.fixture(scope="session")
def judge(servers: str) -> Iterator[Judge]:
    judge = Judge(servers)
    yield judge
    judge.close()
