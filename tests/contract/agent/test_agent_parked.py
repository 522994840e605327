"""Containers that are launched with their reservation and wait for their start, by the kernel's word."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from samza_dagster.cluster import ContainerLaunch, LocalCluster
from tests.contract.agent.rig import Agent, Rig, ask, launch, lives, start, until
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def ask_with_launch(cluster: LocalCluster, wanted: ContainerLaunch, *, ahead: bool = True) -> str:
    """Asks for a resource with the launch of what will start on it; the request's id."""
    request_id = f"r-{wanted.execution_id}"
    parked = replace(wanted, job_model_json="")
    ask(cluster, request_id, memory_mb=100, expires_in_s=20 * PACE, launch=parked, ahead=ahead)
    return request_id


def parked_pid(agent: Agent, execution_id: str) -> int:
    """The process of a record that says parked, once there is one."""
    record = agent.incarnation(execution_id)

    def look() -> int:
        try:
            assert json.loads((record / "marks.json").read_text())["parked"]
            return int(json.loads((record / "warden.json").read_text())["container"]["pid"])
        except OSError:
            return 0

    return until(f"{execution_id} is parked", look)


def is_gone(agent: Agent, execution_id: str, pid: int) -> bool:
    """No process and no record."""
    return not lives(pid) and not agent.incarnation(execution_id).exists()


def served(agent: Agent, execution_id: str) -> str:
    """The JobModel that the container read."""
    path = agent.incarnation(execution_id) / "work" / "job_model.json"
    return until("it has read its JobModel", lambda: path.read_text() if path.exists() else "")


def test_the_start_only_opens_the_gate(job: Rig) -> None:
    """Ready before it is told of, no container to the coordinator, then the same process runs on."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    wanted = launch("e1")
    request_id = ask_with_launch(cluster, wanted)
    pid = parked_pid(agent, "e1")
    assert seen.wait("on_resource_allocated", request_id) == (request_id, "host-1")
    assert not (agent.incarnation("e1") / "work" / "job_model.json").exists()
    assert not seen.named("on_container_launched")
    cluster.start_container(request_id, "host-1", wanted)
    assert seen.wait("on_container_checked_in", "e1") == ("e1", "host-1")
    assert seen.named("on_container_launched") == [("e1", "host-1", pid)]
    assert json.loads(served(agent, "e1")) == json.loads(wanted.job_model_json)
    os.kill(pid, signal.SIGKILL)
    assert seen.wait("on_container_stopped", "e1")[2] == 137


def test_one_that_dies_while_it_waits_holds_nobody_up(job: Rig) -> None:
    """Its resource is told of at once, and the start is a launch as ever, with its own failure."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    request_id = ask_with_launch(cluster, launch("e1", "crash"))
    seen.wait("on_resource_allocated", request_id, within_s=5)
    until("its record is gone", lambda: not agent.incarnation("e1").exists())
    assert not seen.named("on_container_stopped")
    cluster.start_container(request_id, "host-1", launch("e1", "crash"))
    assert seen.wait("on_container_stopped", "e1")[2] == 7


def test_what_is_given_back_is_killed(job: Rig) -> None:
    """Also one that ignores SIGTERM and its children; then its place and its id are free."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1", memory_mb=100)
    for variant in ("stubborn", "forks"):
        request_id = ask_with_launch(cluster, launch("e1", variant))
        pid = parked_pid(agent, "e1")
        seen.wait("on_resource_allocated", request_id)
        cluster.release_resource(request_id)
        until("it is gone", lambda pid=pid: is_gone(agent, "e1", pid), seconds=3)
        seen.calls.clear()
    start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")


def test_a_stop_of_what_was_never_started_finds_nothing_and_kills_it(job: Rig) -> None:
    """A start that got lost: the coordinator hears what it would without a parked one."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_resource_allocated", ask_with_launch(cluster, launch("e1")))
    pid = parked_pid(agent, "e1")
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", None)
    until("it is gone", lambda: is_gone(agent, "e1", pid))


@pytest.mark.parametrize("what", ["environment", "stores", "files"])
def test_another_launch_is_started_anew(job: Rig, what: str) -> None:
    """Only the JobModel may differ: the process was made by all the rest."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    wanted = launch("e1", "stubborn", stores=("j/s/T",))
    request_id = ask_with_launch(cluster, wanted)
    pid = parked_pid(agent, "e1")
    seen.wait("on_resource_allocated", request_id)
    changed = {
        "environment": replace(wanted, environment=(*wanted.environment, ("NEW", "1"))),
        "stores": replace(wanted, store_directories=("j/s/U",)),
        "files": replace(wanted, files=(("login", "new"),)),
    }[what]
    cluster.start_container(request_id, "host-1", changed)
    seen.wait("on_container_checked_in", "e1")
    ((_, _, new_pid),) = seen.named("on_container_launched", "e1")
    assert new_pid != pid
    assert lives(new_pid)
    assert not lives(pid)
    assert not seen.named("on_container_stopped")
    os.kill(new_pid, signal.SIGKILL)  # its grace would be waited for


def test_another_job_model_is_no_other_launch(job: Rig) -> None:
    """What is served is the start's, whatever was planned when the resource was reserved."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    wanted = launch("e1")
    request_id = ask_with_launch(cluster, wanted)
    pid = parked_pid(agent, "e1")
    seen.wait("on_resource_allocated", request_id)
    later = '{"config":{"a":"later"},"containers":{}}'
    cluster.start_container(request_id, "host-1", replace(wanted, job_model_json=later))
    assert seen.wait("on_container_launched", "e1")[2] == pid
    assert json.loads(served(agent, "e1")) == json.loads(later)


def test_a_few_are_parked_and_every_resource_is_held(job: Rig) -> None:
    """Two on a host at a time; the third starts as ever, and a full host refuses as ever."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1", memory_mb=300)
    names = ("e1", "e2", "e3")
    for name in names:
        seen.wait(
            "on_resource_allocated", ask_with_launch(cluster, launch(name, processor_id=name))
        )
    assert parked_pid(agent, "e1")
    assert parked_pid(agent, "e2")
    assert not agent.incarnation("e3").exists()
    full = ask_with_launch(cluster, launch("e4"))
    for name in names:
        cluster.start_container(f"r-{name}", "host-1", launch(name, processor_id=name))
        seen.wait("on_container_checked_in", name)
    assert not agent.incarnation("e4").exists()
    cluster.stop_container("e1", "host-1")
    seen.wait("on_resource_allocated", full)
    assert parked_pid(agent, "e4")


def test_what_waits_for_its_start_blocks_nobody(job: Rig) -> None:
    """Its store directories are free for whoever is started first."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_resource_allocated", ask_with_launch(cluster, launch("e1", stores=("j/s/T",))))
    assert parked_pid(agent, "e1")
    start(cluster, seen, "host-1", launch("e2", stores=("j/s/T",)))
    seen.wait("on_container_checked_in", "e2")
    cluster.start_container("r-e1", "host-1", launch("e1", stores=("j/s/T",)))
    seen.wait("on_container_launched", "e1")
    assert not (agent.incarnation("e1") / "work" / "job_model.json").exists()
    cluster.stop_container("e2", "host-1")
    seen.wait("on_container_checked_in", "e1")


def test_an_agent_that_is_killed_leaves_one_or_none(job: Rig) -> None:
    """The next one adopts what still waits, the start then gives one process, whatever died."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    wanted = launch("e1", command=("sleep", "600"))
    request_id = ask_with_launch(cluster, wanted, ahead=False)
    pid = parked_pid(agent, "e1")
    dies = ask_with_launch(cluster, launch("e2", processor_id="1"), ahead=False)
    broken = parked_pid(agent, "e2")
    seen.wait("on_resource_allocated", dies)
    agent.kill_9()
    until("it lost the connection that it waited on", lambda: not lives(broken))
    assert lives(pid)
    agent.restart()
    until("its record is gone", lambda: is_gone(agent, "e2", broken))
    cluster.start_container(request_id, "host-1", wanted)
    assert seen.wait("on_container_launched", "e1") == ("e1", "host-1", pid)
    cluster.start_container(dies, "host-1", launch("e2", processor_id="1"))
    seen.wait("on_container_checked_in", "e2")
    assert not seen.named("on_container_stopped")


def test_the_release_that_an_agent_missed_is_made_good(job: Rig) -> None:
    """Killed with the reservation in its journal and the parked process on its hands."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    request_id = ask_with_launch(cluster, launch("e1", command=("sleep", "600")), ahead=False)
    pid = parked_pid(agent, "e1")
    seen.wait("on_resource_allocated", request_id)
    agent.kill_9()
    (agent.directory / "reservations.json").write_text('{"version": 1, "held": []}')
    agent.restart()
    until("it is gone", lambda: is_gone(agent, "e1", pid))


def test_it_ends_with_the_lease_and_with_stop_all(job: Rig) -> None:
    """Like any other container: its warden kills it, and the records name it."""
    cluster, seen = job.cluster(lease_s=3.0 * PACE)
    agent = job.agent("host-1")
    seen.wait("on_resource_allocated", ask_with_launch(cluster, launch("e1")))
    pid = parked_pid(agent, "e1")
    cluster.close()
    until("its lease is over", lambda: is_gone(agent, "e1", pid), seconds=8)
    later, seen = job.cluster(epoch=2)
    seen.wait("on_host_registered")
    seen.wait("on_resource_allocated", ask_with_launch(later, launch("e2")))
    pid = parked_pid(agent, "e2")
    assert agent.stop_all()["exit"] == 0
    assert not lives(pid)


def test_one_whose_start_does_not_come_is_killed(tmp_path: Path) -> None:
    """After its time; the resource is held on, and the start is a launch as ever."""
    with_time = Rig(tmp_path)
    try:
        cluster, seen = with_time.cluster()
        agent = with_time.agent("host-1", 1000, 4, "--parked-s", "1.5")
        request_id = ask_with_launch(cluster, launch("e1"))
        seen.wait("on_resource_allocated", request_id)
        pid = parked_pid(agent, "e1")
        until("it is gone", lambda: is_gone(agent, "e1", pid))
        cluster.start_container(request_id, "host-1", launch("e1"))
        assert seen.wait("on_container_launched", "e1")[2] != pid
        seen.wait("on_container_checked_in", "e1")
    finally:
        with_time.close()
