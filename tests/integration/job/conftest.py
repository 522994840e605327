"""One sandbox with real Samza containers for all scenarios of this level."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.of_a_sandbox import client, judge, servers
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.sandbox_job import SandboxJob

__all__ = ("client", "judge", "servers")


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """2 actives, 2 standbys, 4 hosts, a steady load; standbys have caught up."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes")) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def job(sandbox: Sandbox) -> Iterator[SandboxJob]:
    """The sandbox's job as the kernel shows it."""
    with closing(SandboxJob(sandbox)) as job:
        yield job
