"""One sandbox under Samza's own Application Master for all of these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from tests.rig.pace import PACE


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """2 actives, 2 standbys, 4 nodes, a steady load; standbys have caught up."""
    box = Sandbox("yarn", root=tmp_path_factory.mktemp("sandboxes"))
    box.up(Options(name="yarn", yarn=True, state_mb=4.0, rate=200.0 / PACE), Phases(print))
    try:
        yield box
    finally:
        box.down()


@pytest.fixture(scope="package")
def servers(sandbox: Sandbox) -> str:
    return str(sandbox.status()["bootstrap_servers"])


@pytest.fixture(scope="package")
def client(servers: str) -> Iterator[PlacementClient]:
    client = PlacementClient(Connection(servers, demo_job.JOB_NAME, demo_job.JOB_ID))
    yield client
    client.close()


@pytest.fixture(scope="package")
def judge(servers: str) -> Iterator[Judge]:
    judge = Judge(servers)
    yield judge
    judge.close()
