"""One sandbox under Samza's own Application Master for all that don't bring one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.yarn_job import Jobs, yarn_sandbox


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with yarn_sandbox(tmp_path_factory.mktemp("sandboxes")) as box:
        yield box


@pytest.fixture(scope="package")
def servers(sandbox: Sandbox) -> str:
    return str(sandbox.status()["bootstrap_servers"])


@pytest.fixture(scope="package")
def client(servers: str) -> Iterator[PlacementClient]:
    client = PlacementClient(demo_job.connection(servers))
    yield client
    client.close()


@pytest.fixture(scope="package")
def judge(servers: str) -> Iterator[Judge]:
    judge = Judge(servers)
    yield judge
    judge.close()


@pytest.fixture
def jobs(servers: str) -> Iterator[Jobs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Jobs(servers, instance)
