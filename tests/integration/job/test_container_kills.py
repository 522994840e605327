"""Real containers die, and a whole host: what replaces them is there within a deadline.

Each scenario ends with the kernel's, the agents' and the demo judge's word; it prints how long
the outputs were silent, by the broker's clock. Leases are shorter here than a job's, so that
a lost host is replaced while somebody waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samza_dagster.sandbox import demo_job, kafka_client, standby_lag
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.job.conftest import LEASE_S
from tests.rig.job import alive, kill, until
from tests.rig.kill_points import KilledJob, Processors
from tests.rig.sandbox_job import SandboxJob

pytestmark = pytest.mark.integration

BOUND_S = 1
RESTART_S = 25
"""From death to processing; 4 to 6 s on an idle machine, and others may work on this one."""
HOST_LOST_S = LEASE_S + BOUND_S + RESTART_S


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


def partitions_of(processor: str) -> list[int]:
    """Input partitions of an active."""
    return list(range(int(processor), 4, 2))


def offsets(servers: str, topic: str) -> tuple[int, ...]:
    """The topic's end offsets now."""
    consumer = kafka_client.consumer(servers)
    try:
        return kafka_client.end_offsets(consumer, topic)
    finally:
        consumer.close()


def works(
    job: SandboxJob, processor: str, now: Processors, ends: dict[str, tuple[int, ...]]
) -> bool:
    """An active has put something out since `ends`, a standby has applied what was there then."""
    group = processor.partition("-")[0]
    if processor == group:
        outputs = offsets(job.connection.bootstrap_servers, demo_job.OUTPUT_TOPIC)
        before = ends[demo_job.OUTPUT_TOPIC]
        return all(outputs[p] > before[p] for p in partitions_of(group))
    state = job.simulated(now[processor]["host"]).state_directory
    return all(
        (standby_lag.applied_offset(state, f"Partition {p}") or 0)
        >= ends[demo_job.CHANGELOG_TOPIC][p] - 1
        for p in partitions_of(group)
    )


def replaced(job: SandboxJob, before: Processors, names: set[str], seconds: float) -> Processors:
    """Waits until each has a new process that works; nobody else got one. Where all are then."""
    deadline = time.monotonic() + seconds

    def left() -> float:
        return max(0.1, deadline - time.monotonic())

    def running() -> Processors | None:
        now = job.processors()
        new = {
            name
            for name in names & now.keys()
            if now[name]["state"] == "running"
            and now[name]["pid"] not in (None, before[name]["pid"])
            and alive(now[name]["pid"])
        }
        return now if new == names else None

    now = until(f"{names} run again", running, seconds=left())
    servers = job.connection.bootstrap_servers
    ends = {
        topic: offsets(servers, topic)
        for topic in (demo_job.OUTPUT_TOPIC, demo_job.CHANGELOG_TOPIC)
    }
    until(f"{names} work", lambda: all(works(job, n, now, ends) for n in names), seconds=left())
    assert {n: p["pid"] for n, p in now.items() if n not in names} == {
        n: p["pid"] for n, p in before.items() if n not in names
    }
    return now


def outputs_are_whole(judge: Judge, what: str, actives: set[str], since_s: float) -> None:
    """Nothing is missing; prints the longest silence of those partitions since then."""
    verdict = judge.judge(
        deadline_s=60,
        partitions=[p for active in sorted(actives) for p in partitions_of(active)],
        window_ms=(int(since_s * 1000), int(time.time() * 1000)),
    )
    assert verdict.is_good, verdict
    silent = ", ".join(f"partition {gap.partition} {gap.gap_ms} ms" for gap in verdict.gaps)
    print(f"\n{what}: silence of the outputs: {silent}")


@pytest.mark.parametrize(
    "killed", [{"0"}, {"0-0"}, {"0", "0-0"}], ids=lambda k: "+".join(sorted(k))
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


def test_all_that_ran_on_a_dead_host_works_elsewhere_and_loses_nothing(
    job: SandboxJob, rest: KilledJob, judge: Judge
) -> None:
    """SIGKILL of agent, wardens and containers: its actives go on in their standbys' places."""
    before = rest.settle()
    host = before["0"]["host"]
    lost = {name for name, found in before.items() if found["host"] == host}
    # A standby gives its place to its active, and goes elsewhere.
    moved = lost | {f"{name}-0" for name in lost if name.isdigit()}
    at = job.kill_host(host)
    after = replaced(job, before, moved, HOST_LOST_S)
    for name in lost:
        assert after[name]["host"] != host
        if name.isdigit():
            assert after[name]["host"] == before[f"{name}-0"]["host"]
    print(f"\n{host} with {lost} is replaced after {time.time() - at:.1f} s, leases of {LEASE_S} s")
    outputs_are_whole(judge, "a dead host", {n for n in lost if n.isdigit()}, at)
    job.start_agent(host)
    again = rest.settle()
    assert {n: p["pid"] for n, p in again.items()} == {n: p["pid"] for n, p in after.items()}


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(rest: KilledJob) -> None:
    """The kernel's process table and the audit history, over everything above."""
    rest.judge()
