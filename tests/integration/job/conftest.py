"""One sandbox with real Samza containers for all scenarios of this level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import demo_sandbox


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """2 actives, 2 standbys, 4 hosts, a steady load; standbys have caught up."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes")) as sandbox:
        yield sandbox


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
