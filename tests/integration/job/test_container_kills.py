"""Real containers die: what replaces them works within a deadline, and nothing is lost.

Prints how long the outputs were silent, by the broker's clock. A whole host's death is a fault
of `tests/chaos`: it has to be silent for a while before it is lost.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.at_rest import Processors
from tests.rig.job import kill
from tests.rig.kill_points import KilledJob
from tests.rig.replacement import outputs_are_whole, replaced
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

RESTART_S = 60
"""From death to work; an active takes 5 s, a standby shows by its next commit. Machines may be busy."""


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


@pytest.mark.realfault
def test_killed_containers_leave_no_library_behind(
    job: SandboxJob, rest: KilledJob, sandbox: Sandbox
) -> None:
    """A JVM unpacks RocksDB's, 12 MB, and only one that ends in order removes it."""
    unpacked: set[Path] = set()
    for _ in range(2):
        before = rest.settle()
        unpacked |= _libraries(before)
        kill(before["0-0"]["pid"], before["1-0"]["pid"])
        replaced(job, before, {"0-0", "1-0"}, RESTART_S)
    after = rest.settle()
    used = _libraries(after)
    assert len(used) == len(after)
    assert {path for path in unpacked - used if path.exists()} == set()
    until(
        "hosts keep what their containers use, and nothing else",
        lambda: set((sandbox.directory / "hosts").rglob("librocksdbjni*")) == used,
    )


def _libraries(processors: Processors) -> set[Path]:
    """RocksDB's libraries, where those that run have them from."""
    maps = (Path(f"/proc/{p['pid']}/maps").read_text().splitlines() for p in processors.values())
    return {Path(line.split()[-1]) for each in maps for line in each if "librocksdbjni" in line}


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(rest: KilledJob) -> None:
    """The kernel's process table and the audit history, over everything above."""
    rest.judge()
