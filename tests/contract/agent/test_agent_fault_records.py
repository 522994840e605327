"""Clocks that are set, numbers that are given again, a reboot, another version, a death that hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from samza_dagster.cluster import LocalCluster
from tests.contract.agent.clocked import ClockedPython, clocked_python
from tests.contract.agent.rig import (
    PACKAGED,
    Agent,
    Recorder,
    Rig,
    Scenario,
    Waiting,
    launch,
    lease_end_s,
    lives,
    reserve,
    start,
    until,
)
from tests.rig.pace import PACE
from tests.rig.traced import undying

pytestmark = pytest.mark.contract

HOUR_S = 3600.0
AT_ONCE_S = 2.5
"""A warden looks at the wall clock once a second."""
KEPT_BY_A_SESSION = """
import subprocess, time
child = subprocess.Popen(["sleep", "600"], process_group=0)
print(child.pid, flush=True)
child.wait()
"""


# Clocks


def clocked_host(job: Rig, name: str, *more: str) -> tuple[ClockedPython, Agent]:
    python = clocked_python(job.root / name)
    return python, job.agent(name, 1000, 4, *more, program=(python.path, *PACKAGED[1:]))


def a_clock_that_jumps_past_the_lease_ends_it(job: Rig) -> None:
    """Wall clock set, or a suspended host: either ends it at once, and the next start has a lease.
    A jump by less ends nothing.
    """
    cluster, seen = job.cluster(lease_s=20.0 * PACE)
    jumps = {"wall": {"wall_s": HOUR_S}, "suspend": {"boottime_s": HOUR_S}, "step": {"wall_s": 5.0}}
    hosts = {name: clocked_host(job, name)[0] for name in jumps}
    pids = {
        name: start(cluster, seen, name, launch(f"e-{name}", processor_id=name)) for name in jumps
    }
    for name in jumps:
        seen.wait("on_container_checked_in", f"e-{name}")
    for name, jump in jumps.items():
        hosts[name].set_ahead(**jump)
    for name in ("wall", "suspend"):
        assert seen.wait("on_container_stopped", f"e-{name}", AT_ONCE_S)[2] == 137
        assert not lives(pids[name])
        start(cluster, seen, name, launch(f"again-{name}", processor_id=name))
        seen.wait("on_container_checked_in", f"again-{name}")
    assert lives(pids["step"])  # by less than its lease
    assert not seen.named("on_container_stopped", "e-step")


def a_wall_clock_set_back_neither_ends_nor_lengthens_a_lease(job: Rig) -> None:
    """Renewed as ever; without renewals it ends when CLOCK_BOOTTIME says."""
    cluster, seen = job.cluster(lease_s=20.0 * PACE, host_timeout_s=2.0 * PACE)
    python, agent = clocked_host(job, "host-1", "--lease-s", f"{3 * PACE:g}")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    before = lease_end_s(agent)
    python.set_ahead(wall_s=-HOUR_S)
    until("it is renewed under the new time", lambda: python.boottime_s() > before)
    assert lives(pid)
    agent.kill_9()
    ends = lease_end_s(agent)
    until("nearly the end of its last lease", lambda: python.boottime_s() > ends - 0.3 * PACE)
    assert lives(pid)
    until("its lease isn't an hour longer", lambda: not lives(pid), seconds=AT_ONCE_S)


# Records


def rewrite(path: Path, **changed: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def kill_host(agent: Agent, execution_id: str, pid: int) -> None:
    warden = agent.warden_pid(execution_id)
    agent.kill_9()
    os.kill(warden, signal.SIGKILL)
    until("all of it is dead", lambda: not lives(pid) and not lives(warden))


def a_number_that_is_given_again_names_nobody(job: Rig) -> None:
    """Warden, container and agent on record are others now: reported dead, and not one signalled."""
    _, seen, agent, pid = one_container(job)
    kill_host(agent, "e1", pid)
    with subprocess.Popen(
        [sys.executable, "-c", KEPT_BY_A_SESSION], stdout=subprocess.PIPE, start_new_session=True
    ) as session:
        assert session.stdout is not None
        strangers = {"warden": session.pid, "container": int(session.stdout.readline())}
        record = agent.incarnation("e1") / "warden.json"
        named = json.loads(record.read_text())
        rewrite(record, **{part: {**named[part], "pid": n} for part, n in strangers.items()})
        mine = json.loads((agent.directory / "agent.json").read_text())["agent"]
        rewrite(agent.directory / "agent.json", agent={**mine, "pid": session.pid})
        assert agent.stop_all() == {"exit": 0, "stopped": [], "alive": []}
        agent.restart()
        assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", None)
        assert all(map(lives, strangers.values()))
        os.kill(strangers["container"], signal.SIGTERM)  # its parent ends with it


def after_a_reboot_everything_on_record_is_dead_and_nothing_is_held(job: Rig) -> None:
    """Nothing is adopted or signalled, also where number and start time agree. The processes live on: they stand for strangers with the same numbers and start times."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", command=("sleep", "600")))
    reserve(cluster, seen, "unused", memory_mb=50, expires_in_s=10)
    warden = agent.warden_pid("e1")
    agent.kill_9()
    before = json.loads((agent.directory / "reservations.json").read_text())["held"]
    assert {held["request_id"] for held in before} == {"unused", "r-e1"}
    boot_id = json.loads((agent.directory / "grant.json").read_text())["boot_id"]
    for record in agent.directory.rglob("*.json"):
        record.write_text(record.read_text().replace(boot_id, "the boot before"))
    agent.restart()
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", None)
    (told,) = [r for r, _ in seen.named("on_host_registered")[1:]]
    assert told.free_memory_mb == told.memory_mb
    assert lives(pid)
    assert lives(warden)
    os.kill(warden, signal.SIGKILL)
    start(cluster, seen, "host-1", launch("e2"))
    seen.wait("on_container_checked_in", "e2")


def records_of_the_next_version_are_adopted_and_of_one_further_left_alone(job: Rig) -> None:
    """An agent that doesn't understand a record ends and says which; containers run on."""
    _, seen, agent, pid = one_container(job)
    spec = agent.incarnation("e1") / "spec.json"
    for version, understood in ((3, False), (2, True)):
        agent.kill_9()
        rewrite(spec, version=version, something_new={"a": 1})
        agent.restart()
        if understood:
            until("it is registered again", lambda: len(seen.named("on_host_told")) == 2)
        else:
            assert agent.process.wait(timeout=10 * PACE) == 1
            assert f"{spec}: version 3 isn't understood" in agent.log()
        assert lives(pid)
    ((_, (observed,)),) = seen.named("on_host_registered")[1:]
    assert (observed.state, observed.pid, observed.checked_in) == ("running", pid, True)
    assert not seen.named("on_container_stopped")


# A death that hangs


def one_container(job: Rig, grace_s: float = 5.0) -> tuple[LocalCluster, Recorder, Agent, int]:
    """`e1` works on `host-1`."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", grace_s=grace_s))
    seen.wait("on_container_checked_in", "e1")
    return cluster, seen, agent, pid


SCENARIOS = (
    a_wall_clock_set_back_neither_ends_nor_lengthens_a_lease,
    a_clock_that_jumps_past_the_lease_ends_it,
    a_number_that_is_given_again_names_nobody,
    after_a_reboot_everything_on_record_is_dead_and_nothing_is_held,
    records_of_the_next_version_are_adopted_and_of_one_further_left_alone,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_clocks_and_records_that_are_wrong_mislead_nobody(
    waiting: Waiting, scenario: Scenario
) -> None:
    """Each on a host of its own, all of them at once."""
    waiting[scenario].result()


@pytest.mark.longcontract
def test_a_container_that_does_not_die_is_told_and_keeps_its_resource(job: Rig) -> None:
    """Stopped is told when it dies after all, and only then is its memory given again.

    The agent says so 12 s after the grace. Takes the right to trace a process.
    """
    cluster, seen, agent, pid = one_container(job, grace_s=0.2)
    with undying(pid):
        cluster.stop_container("e1", "host-1")
        assert "lives on" in seen.wait("on_stop_failed", "e1", within_s=25)[2]
        assert lives(pid)
        assert not seen.named("on_container_stopped")
        assert cluster.hosts()[0].free_memory_mb == 900
        assert agent.log().count("killing its group") == 1
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 137)
    until("its resource is given back", lambda: cluster.hosts()[0].free_memory_mb == 1000)
