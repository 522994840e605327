"""A whole host that is frozen and thaws: two processes believe that they own the tasks.

The brokers let one of them write. Judged by the broker's own log: every batch there names
the producer that it is from, and a container has one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.client.audit_history import read_history
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.chaos import broker_log
from tests.chaos.broker_log import Batch
from tests.integration.job.test_moves import PARTITIONS_OF_0, processors
from tests.rig.job import alive, parent_of
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.realfault]

HOST_TIMEOUT = "samza.dagster.host.timeout.ms=6000\n"


def batches(sandbox: Sandbox, partition: int) -> list[Batch]:
    """The changelog partition as the broker has it on disk."""
    data = sandbox.directory / "broker" / "data"
    return broker_log.batches(data, demo_job.CHANGELOG_TOPIC, partition)


def restart_coordinator(sandbox: Sandbox) -> None:
    """Its own settings are no new deployment: containers run on."""
    (coordinator,) = sandbox.registry.live("coordinator")
    coordinator.stop(grace_s=20)
    sandbox.files.start(on_spawn=sandbox.registry.add)
    until("all are known again", lambda: all_run(sandbox), seconds=40)


def all_run(sandbox: Sandbox) -> bool:
    """Four containers, by the coordinator's word and the kernel's."""
    found = processors(sandbox).values()
    return len(found) == 4 and all(
        p["state"] == "running" and p["pid"] and alive(p["pid"]) for p in found
    )


@pytest.fixture
def quick_to_notice(sandbox: Sandbox) -> Iterator[None]:
    """A host counts as lost after 6 s, for this scenario alone."""
    before = sandbox.files.config.read_text()
    sandbox.files.config.write_text(before + HOST_TIMEOUT)
    restart_coordinator(sandbox)
    yield
    sandbox.files.config.write_text(before)
    restart_coordinator(sandbox)


def container_log(sandbox: Sandbox, host: str, execution_id: str) -> Path:
    """Of one incarnation."""
    directory = next(h.directory for h in sandbox.hosts if h.name == host)
    return directory / "incarnations" / execution_id / "container.log"


@pytest.mark.usefixtures("quick_to_notice")
def test_a_frozen_host_is_fenced_and_what_thaws_there_writes_nothing(
    sandbox: Sandbox, servers: str, judge: Judge
) -> None:
    """Agent, wardens and JVMs stop in mid-work; its successor runs long before the lease is
    over. Then the JVM alone thaws, so that nobody can tell it to stop, and tries to go on.
    """
    before = processors(sandbox)
    lost = before["0"]
    log = container_log(sandbox, lost["host"], lost["execution_id"])
    jvms = [p["pid"] for p in before.values() if p["host"] == lost["host"]]
    (agent,) = sandbox.registry.live(f"agent {lost['host']}")
    keepers = [agent.pid, *map(parent_of, jvms)]
    zombies = {p: batches(sandbox, p)[-1].producer_id for p in PARTITIONS_OF_0}
    for pid in (*keepers, *jvms):
        os.kill(pid, signal.SIGSTOP)
    try:
        after = until(
            "0 runs elsewhere",
            lambda: (
                (p := processors(sandbox).get("0"))
                and p["state"] == "running"
                and p["host"] != lost["host"]
                and p
            ),
            seconds=60,
        )
        for partition, zombie in zombies.items():
            until(
                f"its successor writes to {partition}",
                lambda p=partition, z=zombie: batches(sandbox, p)[-1].producer_id != z,
            )
        ends = {p: batches(sandbox, p)[-1].next_offset for p in PARTITIONS_OF_0}
        assert alive(lost["pid"])
        for pid in jvms:
            os.kill(pid, signal.SIGCONT)
        until("it was refused", lambda: "AuthorizationException" in log.read_text(), seconds=40)
    finally:
        for pid in (*jvms, *keepers):
            os.kill(pid, signal.SIGCONT)
    until("everything runs, on all hosts", lambda: all_run(sandbox), seconds=60)
    (start,) = [
        r
        for r in read_history(Connection(servers, demo_job.JOB_NAME, demo_job.JOB_ID)).records
        if r.kind == "start" and r.execution_id == after["execution_id"]
    ]
    assert start.predecessor is not None
    assert (start.predecessor.execution_id, start.predecessor.how) == (
        lost["execution_id"],
        "fenced",
    )
    for partition, zombie in zombies.items():
        written = batches(sandbox, partition)
        assert zombie not in {b.producer_id for b in written if b.next_offset > ends[partition]}
        assert not broker_log.overlaps(demo_job.CHANGELOG_TOPIC, partition, written)
        assert written[-1].next_offset > ends[partition]
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict
