"""What is asked of a package's one sandbox (its fixture `sandbox`); each conftest imports these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox


@pytest.fixture(scope="package")
def servers(sandbox: Sandbox) -> str:
    return str(sandbox.status()["bootstrap_servers"])


@pytest.fixture(scope="package")
def client(servers: str) -> Iterator[PlacementClient]:
    with PlacementClient(demo_job.connection(servers)) as client:
        yield client


@pytest.fixture(scope="package")
def judge(servers: str) -> Iterator[Judge]:
    with closing(Judge(servers)) as judge:
        yield judge
