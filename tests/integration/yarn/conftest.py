"""One sandbox under Samza's own Application Master for all that don't bring one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.yarn.containers import containers
from tests.rig.job import alive
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.rig.yarn_job import Jobs


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """2 actives, 2 standbys, 4 nodes, a steady load; standbys have caught up.

    It is ended by its record, as where whoever started it was killed.
    """
    root = tmp_path_factory.mktemp("sandboxes")
    box = Sandbox("yarn", root=root)
    box.up(Options(name="yarn", yarn=True, state_mb=4.0, rate=200.0 / PACE), Phases(print))
    try:
        yield box
    finally:
        started, ran = box.registry.live(), box.yarn.processors().values()
        Sandbox("yarn", root=root).down()
    assert not [record for record in started if record.is_alive]
    # Each host's processes end with its first one, by the kernel.
    until("no container is left", lambda: not any(alive(each["pid"]) for each in ran))
    assert containers(box.directory / "yarn") == {}


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


@pytest.fixture
def jobs(servers: str) -> Iterator[Jobs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Jobs(servers, instance)
