"""A real standby whose consumer hangs: alive by every heartbeat, and of no use."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.judge import Judge
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import alive
from tests.rig.kill_points import KilledJob
from tests.rig.replacement import outputs_are_whole, replaced
from tests.rig.sandbox_job import SandboxJob
from tests.rig.traced import hung, threads
from tests.rig.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.realfault]

STALLED_S = 15
SETTINGS = {"samza.dagster.standby.stalled.ms": str(STALLED_S * 1000)}
NOTICED_S = 2 * STALLED_S + 15
"""It reports every 5 s and flushes its store before it counts as standing still."""
RESTART_S = 90


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxJob]:
    """A sandbox whose coordinator soon calls a standby stalled."""
    with demo_sandbox(tmp_path_factory.mktemp("sandboxes"), SETTINGS) as sandbox:
        made = SandboxJob(sandbox)
        yield made
        made.close()


def test_a_standby_that_lives_and_applies_nothing_is_restarted(job: SandboxJob) -> None:
    """Its process runs and reports; the coordinator sees that its offset stands still."""
    rest = KilledJob(job)
    before = rest.settle()
    pid = before["0-0"]["pid"]
    consumers = threads(pid, "Samza KafkaCons")
    assert consumers, "no thread of the standby reads from Kafka"
    at = time.time()
    with hung(pid, consumers, "epoll_wait"):
        until(
            "the standby is told to stop",
            lambda: job.processors()["0-0"]["state"] != "running",
            seconds=NOTICED_S,
        )
        assert alive(pid), "it died by itself"
    print(f"\nnoticed after {time.time() - at:.1f} s")
    after = replaced(job, before, {"0-0"}, RESTART_S)
    assert after["0-0"]["host"] == before["0-0"]["host"]
    judge = Judge(job.connection.bootstrap_servers)
    outputs_are_whole(judge, "a standby that stands still", {"0"}, at)
    judge.close()
    rest.judge()
