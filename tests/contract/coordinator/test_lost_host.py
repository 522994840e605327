"""A host that is gone, with all that ran there: the job goes on without it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.rig.job import Job, alive
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def lease_end(job: Job, host: str) -> float:
    """When the last lease that the host knew of ends, in seconds of wall time."""
    grant = json.loads((job.directory / host / "grant.json").read_text())
    wall_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return wall_s + grant["asked_boottime_s"] + grant["lease_s"]


def test_an_active_on_a_lost_host_starts_on_its_standbys_host_after_the_lease(
    job_of: Callable[..., Job],
) -> None:
    """Not before the lease is over, since nobody saw it dead; the status names it meanwhile.
    When the host is back nothing is left in doubt.
    """
    # A host has room for one container, so that nobody of the other group is on the lost one.
    job = job_of("lost-host", hosts=5, memory_mb=256, lease_ms=12_000, host_timeout_ms=4_000)
    before = job.processors()
    host, standby_host = before["0"]["host"], before["0-0"]["host"]
    others = [p for p, c in before.items() if c["host"] not in (host, standby_host)]
    assert sorted(others) == ["1", "1-0"]
    killed_at = time.time()
    job.kill_host(host)
    ends = lease_end(job, host)
    status = until("the loss is seen", lambda: (s := job.status()) and s["orphans"] and s)
    assert {orphan["host"] for orphan in status["orphans"]} == {host}
    assert all(orphan["lost_at_ms"] < orphan["lease_ends_ms"] for orphan in status["orphans"])
    after = until(
        "everything runs",
        lambda: (
            (now := job.processors())
            and all(c["state"] == "running" and c["pid"] and alive(c["pid"]) for c in now.values())
            and now
        ),
        seconds=40,
    )
    assert after["0"]["host"] == standby_host
    assert all(c["host"] != host for c in after.values())
    assert {p: after[p]["pid"] for p in others} == {p: before[p]["pid"] for p in others}
    starts = [e for e in job.journal() if e["what"] == "started" and e["at"] > killed_at]
    first = min(e["at"] for e in starts if e["processor"] == "0")
    assert ends > killed_at, "a lease that was over anyway shows nothing"
    assert first >= ends, f"started {ends - first:.3f} s before the lease was over"
    assert not [e for e in job.journal() if e["what"] == "VIOLATION"]
    job.start_agent(host)
    until("nothing is in doubt", lambda: (s := job.status()) and not s["orphans"] and s)
    assert job.wait_until_running()["0"]["pid"] == after["0"]["pid"]
