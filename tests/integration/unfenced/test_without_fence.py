"""The same frozen host where the brokers fence nobody: what the outsiders' judge must see.

A judge that finds no overlap where there is one would find none anywhere.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from tests.rig.demo_sandbox import all_run, demo_sandbox
from tests.rig.frozen_host import frozen_host
from tests.rig.history import followers
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.realfault

SETTINGS = {
    "samza.dagster.lease.ms": str(round(20_000 * PACE)),
    "samza.dagster.host.timeout.ms": str(round(6_000 * PACE)),
}


def test_without_a_fence_what_thaws_writes_until_its_warden_runs_and_the_judge_sees_it(
    tmp_path: Path,
) -> None:
    """The lease is over when the successor starts; a JVM that alone thaws can't know. Nothing is lost."""
    with demo_sandbox(tmp_path, SETTINGS, fencing="lease") as sandbox:
        servers = str(sandbox.status()["bootstrap_servers"])
        judge = Judge(servers)
        with frozen_host(sandbox) as frozen:
            frozen.until_replaced()
            assert frozen.overlaps() == []
            thawed_ms = int(time.time() * 1000)
            frozen.thaw_jvms()
            until("the judge sees two owners", frozen.overlaps, seconds=60)
        frozen.until_gone()
        over_ms = int(time.time() * 1000)
        until("everything runs, on all hosts", lambda: all_run(sandbox), seconds=90)
        verdict = judge.judge(deadline_s=90 * PACE)
        judge.close()
        found = frozen.overlaps()
        after = followers(demo_job.connection(servers), frozen.lost["execution_id"])
    # The owner that writes on after a zombie's batch counts as a return too: that one is right.
    returned = [o for o in found if o.producer_id in frozen.zombies]
    print(f"\n{len(returned)} returns of who had been replaced, {over_ms - thawed_ms} ms of thaw")
    assert returned
    # A batch has the time at which the broker appended it: one that has no time for what it was
    # sent before the end appends it after that.
    assert all(o.at_ms <= over_ms for o in returned)
    assert verdict.is_good, verdict
    how = [how for _, how in after.values()]
    assert how == ["lease"], "the certificate says by what it was taken for dead"
