"""One sandbox with real Samza containers, its coordinators made to be killed.

After each kill an outsider who reads inputs and outputs finds nothing missing, before the
next: a container that is killed over and over before it has caught up never would.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.judge import Judge
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.kill_points import CRASHING, KilledJob
from tests.rig.load_watch import LoadWatch, load_lives
from tests.rig.pace import PACE
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

PATIENCE_S = 90.0
CAUGHT_UP_S = 60.0 * PACE
SETTINGS = {
    "samza.dagster.lease.ms": "30000",
    "samza.dagster.host.timeout.ms": "20000",
    # To kill a container again and again is no flapping here.
    "cluster-manager.container.retry.count": "-1",
    # What is killed every few seconds has to commit meanwhile.
    "task.commit.ms": "1000",
}


@pytest.fixture(scope="package")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledJob]:
    """A sandbox's job, led by a coordinator that can be killed at any point, a spare beside it."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes"), SETTINGS) as sandbox:
        job = SandboxJob(sandbox, CRASHING)
        job.take_over()
        judge = Judge(job.connection.bootstrap_servers)

        def caught_up() -> None:
            verdict = judge.judge(deadline_s=CAUGHT_UP_S)
            assert verdict.is_good, f"{verdict}\n{job.last_words()}"
            assert load_lives(sandbox), "without a load nothing is missing, whatever was lost"
            watch = LoadWatch(lambda: load_lives(sandbox))
            until("the load goes on", lambda: not watch.why_not(judge.judge()))

        made = KilledJob(job, patience_s=PATIENCE_S, outsider=caught_up)
        made.settle()
        made.wait_beside()
        yield made
        job.end_coordinators()
        job.close()
        judge.close()


@pytest.fixture(scope="package")
def judge(killed: KilledJob) -> Iterator[Judge]:
    judge = Judge(killed.job.connection.bootstrap_servers)
    yield judge
    judge.close()
