"""Containers die, their hosts and the coordinator live: they run again, within seconds.

Of a whole host: `test_lost_host.py`, and the kill matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.job import Job, kill
from tests.rig.kill_points import KilledJob

pytestmark = pytest.mark.contract

RESTART_WITHIN_S = 10
"""Reserve, start and check in take less than a second on an idle machine."""


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("failing")


@pytest.mark.parametrize("killed", [("0",), ("0-0",), ("0", "0-0")], ids="+".join)
def test_killed_containers_run_again_on_their_hosts(job: Job, killed: tuple[str, ...]) -> None:
    """An active, a standby, both of a group: their hosts have room, so nobody else is touched."""
    settled = KilledJob(job)
    before = settled.settle()
    kill(*(before[name]["pid"] for name in killed))
    after = settled.settle(seconds=RESTART_WITHIN_S)
    for name, found in after.items():
        assert found["host"] == before[name]["host"]
        assert (found["pid"] != before[name]["pid"]) == (name in killed)


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(job: Job) -> None:
    """The kernel's locks and the audit history, over everything above."""
    assert not [line for line in job.journal() if line["what"] == "VIOLATION"]
    KilledJob(job).judge()
