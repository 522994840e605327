"""A coordinator or a broker that is away for a minute kills nobody, whatever is in flight.

Real containers, the sandbox's lease of two minutes. Both are killed, not asked to end. Who
lives is read off the kernel's process table, what the containers did off the topics.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.at_rest import Processors
from tests.rig.broker import kill_broker
from tests.rig.job import alive
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import FAILOVER, MOVE, SPIN_UP, STOP_STANDBY, SWAP
from tests.rig.pace import PACE
from tests.rig.replacement import offsets, works
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

AWAY_S = 60.0
PATIENCE_S = 120.0

Begin = Callable[[SandboxJob, Processors], Any]


def nothing(_job: SandboxJob, _before: Processors) -> None:
    """At rest."""


# What is begun, and the moment at which the server goes: an action's stage, or a failover.
PHASES: dict[str, tuple[Begin, str, set[str]]] = {
    "at rest": (nothing, "", set()),
    "a move reserves": (MOVE.happens, "reserving", {"0"}),
    "a move stops": (MOVE.happens, "stopping", {"0"}),
    "a move starts": (MOVE.happens, "starting", {"0"}),
    "a swap stops the standby": (SWAP.happens, "stopping-standby", {"0", "0-0"}),
    "a failover waits": (FAILOVER.happens, "failover", {"0", "0-0"}),
    "a standby spins up": (SPIN_UP.happens, "starting", set()),
}
IN_CI = {("coordinator", "a failover waits"), ("broker", "a move starts")}


@pytest.fixture(scope="module")
def job(sandbox: Sandbox) -> Iterator[SandboxJob]:
    """The sandbox's job as the kernel shows it."""
    made = SandboxJob(sandbox)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rest(job: SandboxJob) -> KilledJob:
    """Knows when the job is at rest."""
    return KilledJob(job, patience_s=PATIENCE_S)


def come_to(job: SandboxJob, moment: str) -> None:
    """Waits until the group's action is in that stage, or it fails over."""

    def there() -> bool:
        status = job.status()
        if status is None:
            return False
        if moment == "failover":
            return "0" in status["failovers"]
        return status["actions"].get("0", {}).get("stage") == moment

    until(moment, there, seconds=40, every=0.005)


def answers(job: SandboxJob) -> bool:
    """The broker takes connections."""
    host, _, port = job.connection.bootstrap_servers.rpartition(":")
    with socket.socket() as asking:
        return asking.connect_ex((host, int(port))) == 0


def all_work(job: SandboxJob, now: Processors) -> None:
    """Every active writes and every standby applies what was written when it is asked."""
    ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
    until(
        "all work",
        lambda: all(works(job, name, now, ends) for name in now),
        seconds=PATIENCE_S,
    )


@pytest.mark.parametrize(
    ("server", "phase"),
    [
        pytest.param(
            server,
            phase,
            marks=pytest.mark.realfault if (server, phase) in IN_CI else pytest.mark.absence,
        )
        for server in ("coordinator", "broker", "both")
        for phase in PHASES
    ],
)
def test_a_minute_without_a_server_ends_no_container(
    job: SandboxJob, rest: KilledJob, judge: Judge, server: str, phase: str
) -> None:
    """Whoever isn't moved has the same process through and after it, and works before and
    after; what was in flight comes to its end, and no output is missing.
    """
    begin, moment, moved = PHASES[phase]
    before = rest.settle()
    all_work(job, before)
    since = time.time()
    begin(job, before)
    if moment:
        come_to(job, moment)
    back: list[Callable[[], object]] = []
    if server != "coordinator":
        again = kill_broker(job.sandbox)
        back += [again, lambda: until("the broker answers", lambda: answers(job), seconds=40)]
    if server != "broker":
        job.end_coordinators()
        back.append(lambda: job.sandbox.files.start(on_spawn=job.sandbox.registry.add))
    others = {name: p["pid"] for name, p in before.items() if name not in moved}
    over = time.monotonic() + AWAY_S
    try:
        until(
            "a minute is over, or somebody died",
            lambda: time.monotonic() > over or not all(map(alive, others.values())),
            seconds=AWAY_S + 10,
        )
    finally:
        for step in back:
            step()
    assert all(map(alive, others.values())), [n for n, pid in others.items() if not alive(pid)]
    extra = 1 if begin is SPIN_UP.happens else 0
    after = rest.settle(extra)
    assert {name: after[name]["pid"] for name in others} == others
    all_work(job, {name: p for name, p in after.items() if name in before})
    if extra:
        STOP_STANDBY.happens(job, after)
    if begin is FAILOVER.happens:
        FAILOVER.restore(job, before)
    rest.settle()
    verdict = judge.judge(
        deadline_s=120 * PACE, window_ms=(int(since * 1000), int(time.time() * 1000))
    )
    assert verdict.is_good, verdict
    silent = {gap.partition: gap.gap_ms for gap in verdict.gaps}
    print(f"\n{server} away while {phase}: longest silences, ms by partition: {silent}")


@pytest.mark.realfault
def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(rest: KilledJob) -> None:
    """The kernel's process table and the audit history, over everything above."""
    rest.judge()
