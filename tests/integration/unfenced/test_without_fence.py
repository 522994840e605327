"""The same frozen host where the brokers fence nobody: what the outsiders' judge must see.

A judge that finds no overlap where there is one would find none anywhere.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from samza_dagster.client.audit_history import read_history
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.chaos import broker_log
from tests.integration.job.test_frozen_host import all_run, batches
from tests.integration.job.test_moves import PARTITIONS_OF_0, processors
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import alive, parent_of
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.realfault

SETTINGS = {
    "samza.dagster.lease.ms": str(round(20_000 * PACE)),
    "samza.dagster.host.timeout.ms": str(round(6_000 * PACE)),
}


def overlaps(sandbox: Sandbox) -> list[broker_log.Overlap]:
    topic = demo_job.CHANGELOG_TOPIC
    return [o for p in PARTITIONS_OF_0 for o in broker_log.overlaps(topic, p, batches(sandbox, p))]


def test_without_a_fence_what_thaws_writes_until_its_warden_runs_and_the_judge_sees_it(
    tmp_path: Path,
) -> None:
    """The lease is over when the successor starts; a JVM that alone thaws can't know. Nothing is lost."""
    with demo_sandbox(tmp_path, SETTINGS, fencing="lease") as sandbox:
        servers = str(sandbox.status()["bootstrap_servers"])
        judge = Judge(servers)
        before = processors(sandbox)
        lost = before["0"]
        jvms = [p["pid"] for p in before.values() if p["host"] == lost["host"]]
        (agent,) = sandbox.registry.live(f"agent {lost['host']}")
        zombies = {b.producer_id for p in PARTITIONS_OF_0 for b in batches(sandbox, p)}
        keepers = [agent.pid, *map(parent_of, jvms)]
        for pid in (*keepers, *jvms):
            os.kill(pid, signal.SIGSTOP)
        try:
            until(
                "0 runs elsewhere",
                lambda: (
                    (p := processors(sandbox)["0"])["state"] == "running"
                    and p["host"] != lost["host"]
                ),
                seconds=90,
            )
            until(
                "its successor writes to all of its partitions",
                lambda: all(
                    batches(sandbox, p)[-1].producer_id not in zombies for p in PARTITIONS_OF_0
                ),
                seconds=60,
            )
            assert overlaps(sandbox) == []
            assert alive(lost["pid"])
            thawed_ms = int(time.time() * 1000)
            for pid in jvms:
                os.kill(pid, signal.SIGCONT)
            until("the judge sees two owners", lambda: overlaps(sandbox), seconds=60)
        finally:
            for pid in (*jvms, *keepers):
                os.kill(pid, signal.SIGCONT)
        until("who thawed has ended", lambda: not any(map(alive, jvms)), seconds=60)
        over_ms = int(time.time() * 1000)
        until("everything runs, on all hosts", lambda: all_run(sandbox), seconds=90)
        verdict = judge.judge(deadline_s=90 * PACE)
        judge.close()
        found = overlaps(sandbox)
        connection = Connection(servers, demo_job.JOB_NAME, demo_job.JOB_ID)
        starts = [r for r in read_history(connection).records if r.kind == "start"]
    # The owner that writes on after a zombie's batch counts as a return too: that one is right.
    returned = [o for o in found if o.producer_id in zombies]
    print(f"\n{len(returned)} returns of who had been replaced, {over_ms - thawed_ms} ms of thaw")
    assert returned
    # A batch has its newest record's time, by the producer's clock: it may have waited since before.
    assert all(o.at_ms <= over_ms for o in returned)
    assert verdict.is_good, verdict
    (start,) = [
        s.predecessor
        for s in starts
        if s.predecessor is not None and s.predecessor.execution_id == lost["execution_id"]
    ]
    assert start.how == "lease", "the certificate says by what it was taken for dead"
