"""One sandbox under Samza's own Application Master for all that don't bring one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.of_a_sandbox import client, judge, servers
from tests.rig.yarn_job import Jobs, yarn_sandbox

__all__ = ("client", "judge", "servers")


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with yarn_sandbox(tmp_path_factory.mktemp("sandboxes")) as box:
        yield box


@pytest.fixture
def jobs(servers: str) -> Iterator[Jobs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Jobs(servers, instance)
