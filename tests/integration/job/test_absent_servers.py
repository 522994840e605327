"""A coordinator or a broker that is away for a minute kills nobody, whatever is in flight.

Real containers, the sandbox's lease of two minutes. Both are killed, not asked to end. Who
lives is read off the kernel's process table, what the containers did off the topics. The way
back of an action that failed is no row here: it starts a container as a failover does.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from tests.rig.at_rest import Processors
from tests.rig.broker import brokers_of, kill_broker
from tests.rig.job import alive
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import FAILOVER, MOVE, SPIN_UP, STOP_STANDBY, SWAP, free_host
from tests.rig.pace import PACE
from tests.rig.replacement import offsets, works
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until
from tests.share import Share

pytestmark = [pytest.mark.integration, pytest.mark.absence]

AWAY_S = 60.0
PATIENCE_S = 120.0

HELD_S = 600.0
"""Whoever is to commit comes back within that."""

Begin = Callable[[SandboxJob, Processors], Any]


def nothing(_job: SandboxJob, _before: Processors) -> None:
    """At rest."""


def hold(job: SandboxJob, before: Processors) -> str:
    """A move that waits for its commit."""
    with job.client() as client:
        return client.reserve("0", free_host(job, before), request_expiry_s=HELD_S).uuid


def commit(job: SandboxJob, uuid: str) -> None:
    """What was held goes on to its end."""
    with job.client() as client:
        client.commit(uuid)
        assert client.wait(uuid, timeout_s=PATIENCE_S * PACE).status_code == "SUCCEEDED"


def spin_up_where_nobody_answers(job: SandboxJob, before: Processors) -> str:
    """Its destination's agent is frozen (`let_answer`): it reserves within milliseconds otherwise,
    since nothing runs whose replacement is parked first.
    """
    destination = free_host(job, before)
    for agent in job.sandbox.registry.live(job.simulated(destination).role):
        agent.send(signal.SIGSTOP)
    with job.client() as client:
        return client.start_standby("0", destination, request_expiry_s=PATIENCE_S * PACE).uuid


def let_answer(job: SandboxJob) -> None:
    """No agent is frozen."""
    for host in job.host_names:
        for agent in job.sandbox.registry.live(job.simulated(host).role):
            agent.send(signal.SIGCONT)


def fail_over(job: SandboxJob, _before: Processors) -> str:
    """Asked for, of an active that runs."""
    with job.client() as client:
        return client.fail_over("0").uuid


class Phase(NamedTuple):
    """What is begun, the moment at which the server goes (an action's stage, or a failover), and
    who may have another process afterwards. `extra`: so many more standbys.
    """

    begin: Begin
    moment: str = ""
    moved: frozenset[str] = frozenset()
    extra: int = 0


ACTIVE = frozenset({"0"})
BOTH = frozenset({"0", "0-0"})
# The replacement of who runs is parked while its place is reserved: that takes seconds.
PHASES: dict[str, Phase] = {
    "at rest": Phase(nothing),
    "a move reserves": Phase(MOVE.happens, "reserving", ACTIVE),
    "a move stops": Phase(MOVE.happens, "stopping", ACTIVE),
    "a move starts": Phase(MOVE.happens, "starting", ACTIVE),
    "a reservation is held": Phase(hold, "held", ACTIVE),
    "a swap reserves for the standby": Phase(SWAP.happens, "reserving-standby", BOTH),
    "a swap stops the standby": Phase(SWAP.happens, "stopping-standby", BOTH),
    "a swap reserves": Phase(SWAP.happens, "reserving", BOTH),
    "a swap stops": Phase(SWAP.happens, "stopping", BOTH),
    "a swap starts": Phase(SWAP.happens, "starting", BOTH),
    "a failover waits": Phase(FAILOVER.happens, "failover", BOTH),
    "a fail-over that was asked for": Phase(fail_over, "stopping-standby", BOTH),
    "a spin-up reserves": Phase(spin_up_where_nobody_answers, "reserving", extra=1),
    "a standby spins up": Phase(SPIN_UP.happens, "starting", extra=1),
}
AWAY_TOGETHER = ("at rest", "a move starts", "a failover waits")
"""In these both are away at once, too."""
ABSENCES = [
    (server, phase)
    for server in ("coordinator", "broker", "both")
    for phase in (AWAY_TOGETHER if server == "both" else PHASES)
]


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


@pytest.mark.parametrize(("server", "phase"), Share.told().part(ABSENCES))
def test_a_minute_without_a_server_ends_no_container(
    job: SandboxJob, rest: KilledJob, judge: Judge, server: str, phase: str
) -> None:
    """Whoever isn't moved has the same process through and after it, and works before and
    after; what was in flight comes to its end, and no output is missing.
    """
    begin, moment, moved, extra = PHASES[phase]
    before = rest.settle()
    all_work(job, before)
    since = time.time()
    back: list[Callable[[], object]] = []
    try:
        asked = begin(job, before)
        if moment:
            come_to(job, moment)
        if server != "coordinator":
            again = kill_broker(brokers_of(job.sandbox)[0])
            back += [again, lambda: until("the broker answers", lambda: answers(job), seconds=40)]
        if server != "broker":
            job.end_coordinators()
            back.append(lambda: job.sandbox.files.start(on_spawn=job.sandbox.registry.add))
    finally:
        let_answer(job)
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
    if begin is hold:
        commit(job, asked)
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


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(rest: KilledJob) -> None:
    """The kernel's process table and the audit history, over everything above."""
    rest.judge()
