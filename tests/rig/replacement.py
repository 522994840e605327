"""How soon a dead container's replacement works, by broker, kernel and the store on disk."""

from __future__ import annotations

import time

from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.readiness import applied_offset
from tests.rig.at_rest import Processors
from tests.rig.job import runs
from tests.rig.pace import PACE
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until


def partitions_of(processor: str, actives: int = 2) -> list[int]:
    """Input partitions of an active of a demo job with so many."""
    return list(range(int(processor), actives * demo_job.TASKS_PER_CONTAINER, actives))


def offsets(servers: str, topic: str) -> tuple[int, ...]:
    """The topic's end offsets now."""
    consumer = kafka_client.consumer(servers)
    try:
        return kafka_client.end_offsets(consumer, topic)
    finally:
        consumer.close()


def works(job: SandboxJob, processor: str, now: Processors, ends: tuple[int, ...]) -> bool:
    """By the changelog's end offsets of a moment ago: an active has written more, a standby applied it.

    A changelog's partition has one writer; that of an output says nothing of who put it out.
    """
    group = processor.partition("-")[0]
    if processor == group:
        written = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
        return all(written[p] > ends[p] for p in partitions_of(group, job.actives))
    state = job.simulated(now[processor]["host"]).state_directory
    return all(
        (applied_offset(state, f"Partition {p}") or 0) >= ends[p] - 1
        for p in partitions_of(group, job.actives)
    )


def replaced(job: SandboxJob, before: Processors, names: set[str], seconds: float) -> Processors:
    """Waits until each has a new process that works; nobody else got one. Where all are then."""
    deadline = time.monotonic() + seconds * PACE

    def left() -> float:  # as `until` has it: for a machine as fast as the reference
        return max(0.1, (deadline - time.monotonic()) / PACE)

    def running() -> Processors | None:
        now = job.processors()
        return now if all(_is_replaced(now, before, name) for name in names) else None

    now = until(f"{names} run again", running, seconds=left())
    ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
    until(f"{names} work", lambda: all(works(job, n, now, ends) for n in names), seconds=left())
    assert {n: p["pid"] for n, p in now.items() if n not in names} == {
        n: p["pid"] for n, p in before.items() if n not in names
    }
    return now


def replacement_works(job: SandboxJob, before: Processors, name: str, seconds: float) -> Processors:
    """Waits until this one has a new process that works. Where all are then."""

    def running() -> Processors | None:
        now = job.processors()
        return now if _is_replaced(now, before, name) else None

    now = until(f"{name} runs again", running, seconds=seconds)
    ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
    until(f"{name} works", lambda: works(job, name, now, ends), seconds=seconds)
    return now


def _is_replaced(now: Processors, before: Processors, name: str) -> bool:
    return name in now and runs(now[name]) and now[name]["pid"] != before[name]["pid"]


def outputs_are_whole(judge: Judge, what: str, actives: set[str], since_s: float) -> None:
    """Nothing is missing; prints the longest silence of those partitions since then."""
    verdict = judge.judge(
        deadline_s=120 * PACE,
        partitions=[p for active in sorted(actives) for p in partitions_of(active)],
        window_ms=(int(since_s * 1000), int(time.time() * 1000)),
    )
    assert verdict.is_good, verdict
    silent = ", ".join(f"partition {gap.partition} {gap.gap_ms} ms" for gap in verdict.gaps)
    print(f"\n{what}: silence of the outputs: {silent}")
