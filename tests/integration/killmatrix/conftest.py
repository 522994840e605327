"""One sandbox with real Samza containers, its coordinators made to be killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.judge import Judge
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.kill_points import CRASHING, KilledJob
from tests.rig.sandbox_job import SandboxJob

PATIENCE_S = 90.0
LEASE_S, SILENCE_S = 30, 10
SETTINGS = {
    "samza.dagster.lease.ms": str(LEASE_S * 1000),
    "samza.dagster.host.timeout.ms": str(SILENCE_S * 1000),
    # To kill a container again and again is no flapping here.
    "cluster-manager.container.retry.count": "-1",
}


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledJob]:
    """A sandbox's job, led by a coordinator that can be killed at any point, a spare beside it."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes"), SETTINGS) as sandbox:
        job = SandboxJob(sandbox, CRASHING)
        job.take_over()
        made = KilledJob(job, patience_s=PATIENCE_S)
        made.settle()
        made.wait_beside()
        yield made
        job.end_coordinators()
        job.close()


@pytest.fixture(scope="session")
def judge(killed: KilledJob) -> Iterator[Judge]:
    judge = Judge(killed.job.connection.bootstrap_servers)
    yield judge
    judge.close()
