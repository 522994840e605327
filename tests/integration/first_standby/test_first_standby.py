"""A job that began without standbys gets one while it runs, and its active goes onto it.

Samza's transactional restore, which is on where there are none, would wipe the warm store: the
container's own log says how many records each restore read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.readiness import applied_offset
from tests.rig.at_rest import Processors
from tests.rig.demo_sandbox import OPTIONS, demo_sandbox, restored
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import FAILOVER, free_host
from tests.rig.pace import PACE
from tests.rig.replacement import offsets, partitions_of, replaced, works
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

pytestmark = pytest.mark.realfault

PATIENCE_S = 120.0
KEYS = LoadPlan.for_state(OPTIONS.state_mb, actives=1, rate=OPTIONS.rate).keys
PARTITIONS = partitions_of("0", 1)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxJob]:
    """One active, no standby, three hosts, a steady load."""
    root = tmp_path_factory.mktemp("sandboxes")
    with demo_sandbox(root, actives=1, standbys=0, hosts=3) as sandbox:
        made = SandboxJob(sandbox, actives=1, standbys=0)
        yield made
        made.close()


def has_caught_up(job: SandboxJob) -> Processors:
    """The standby has applied what its changelog had a moment ago; where all are."""
    now = job.processors()
    ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
    until("0-0 has applied it", lambda: works(job, "0-0", now, ends), seconds=PATIENCE_S)
    return now


def planned(job: SandboxJob, _: Processors) -> None:
    with job.client() as client:
        uuid = client.place("0", "STANDBY", request_expiry_s=60 * PACE).uuid
        assert client.wait(uuid, timeout_s=PATIENCE_S * PACE).status_code == "SUCCEEDED"


def test_a_standby_that_came_while_the_job_ran_spares_the_restore(job: SandboxJob) -> None:
    """By a planned move and by a failover: only what came since the standby's last commit is read."""
    rest = KilledJob(job, patience_s=PATIENCE_S)
    judge = Judge(job.connection.bootstrap_servers)
    before = rest.settle()
    assert set(before) == {"0"}
    began_s = time.time()
    with job.client() as client:
        uuid = client.start_standby("0", free_host(job, before)).uuid
        assert client.wait(uuid, timeout_s=PATIENCE_S * PACE).status_code == "SUCCEEDED"
    assert set(rest.settle(1)) == {"0", "0-0"}
    ways: tuple[Callable[[SandboxJob, Processors], object], ...] = (planned, FAILOVER.happens)
    for number, happens in enumerate(ways):
        before = has_caught_up(job)
        destination = before["0-0"]["host"]
        state = job.simulated(destination).state_directory
        left = {p: applied_offset(state, f"Partition {p}") for p in PARTITIONS}
        happens(job, before)
        after = replaced(job, before, {"0", "0-0"}, PATIENCE_S)
        assert after["0"]["host"] == destination
        read = restored(job.sandbox, "0")
        ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
        for partition in PARTITIONS:
            applied = left[partition]
            assert applied is not None, "without its store nothing bounds what is read"
            produced = ends[partition] - 1 - applied
            assert read[partition] <= produced, (partition, read, left, ends)
        print(f"\n{number}: {read} of {KEYS} keys were read again")
        assert sum(read.values()) < KEYS / 4, "that is no difference, but a restore"
        FAILOVER.restore(job, before)
        rest.settle(1)
    verdict = judge.judge(deadline_s=PATIENCE_S * PACE)
    judge.close()
    assert verdict.is_good, verdict
    print(
        f"{verdict.completed} completed in {time.time() - began_s:.0f} s, {verdict.duplicates} twice"
    )
    rest.judge()
