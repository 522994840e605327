"""Real containers die: what replaces them works within a deadline, and nothing is lost.

Prints how long the outputs were silent, by the broker's clock. A whole host's death is in
`tests/integration/killmatrix`: its leases have to be waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.job import kill
from tests.rig.kill_points import KilledJob
from tests.rig.replacement import outputs_are_whole, replaced
from tests.rig.sandbox_job import SandboxJob

pytestmark = pytest.mark.integration

RESTART_S = 60
"""From death to work; an active takes 5 s, a standby shows by its next commit. Machines may be busy."""


@pytest.fixture(scope="module")
def job(sandbox: Sandbox) -> Iterator[SandboxJob]:
    """The sandbox's job as the kernel shows it."""
    made = SandboxJob(sandbox)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rest(job: SandboxJob) -> KilledJob:
    """Knows when the job is at rest."""
    return KilledJob(job)


@pytest.mark.parametrize(
    "killed",
    [{"0"}, pytest.param({"0-0"}, marks=pytest.mark.realfault), {"0", "0-0"}],
    ids=lambda k: "+".join(sorted(k)),
)
def test_killed_containers_work_again_on_their_hosts_and_lose_nothing(
    job: SandboxJob, rest: KilledJob, judge: Judge, killed: set[str]
) -> None:
    """SIGKILL of an active, of its standby, of both at once: nobody else is touched."""
    before = rest.settle()
    at = time.time()
    kill(*(before[name]["pid"] for name in killed))
    after = replaced(job, before, killed, RESTART_S)
    assert {n: after[n]["host"] for n in after} == {n: before[n]["host"] for n in before}
    print(f"\n{killed} work again after {time.time() - at:.1f} s")
    outputs_are_whole(judge, f"SIGKILL of {killed}", {"0"}, at)


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(rest: KilledJob) -> None:
    """The kernel's process table and the audit history, over everything above."""
    rest.judge()
