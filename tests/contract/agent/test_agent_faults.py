"""Coordinators, agents and wardens are killed; containers live or die as the lease says."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.contract.agent.rig import (
    TOKEN,
    Rig,
    Scenario,
    Waiting,
    ask,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    start,
    until,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def test_a_report_that_did_not_arrive_is_sent_again(job: Rig) -> None:
    """A death goes out on a connection to a coordinator that is gone: the next one hears of it
    at once, and not when its long poll is over.
    """
    cluster, seen = job.cluster(lease_s=120.0 * PACE)
    job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    cluster.close()
    later, seen = job.cluster(epoch=2, lease_s=120.0 * PACE)
    seen.wait("on_container_checked_in", "e1")
    until("the host has registered", later.hosts)
    os.kill(pid, signal.SIGKILL)
    assert seen.wait("on_container_stopped", "e1", within_s=4)[2] == 137


def a_stopped_warden_does_not_keep_a_dead_container_on_the_books(job: Rig) -> None:
    """SIGSTOP on the warden: the agent is the second killer, and confirms by itself."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", grace_s=0.2))
    seen.wait("on_container_checked_in", "e1")
    os.kill(agent.warden_pid("e1"), signal.SIGSTOP)
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", None)
    assert not lives(pid)


def the_end_of_the_lease_kills_the_group_although_agent_and_coordinator_are_gone(job: Rig) -> None:
    """The warden alone holds the deadline: not before it, and not much later."""
    cluster, seen = job.cluster(lease_s=2.0 * PACE)
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", "forks"))
    seen.wait("on_container_checked_in", "e1")
    child = agent.grandchild("e1")
    first_s = lease_end_s(agent)
    until("a lease later: renewals reach the warden", lambda: boottime_s() > first_s)
    assert lives(pid)
    cluster.close()
    agent.kill_9()
    ends = lease_end_s(agent)
    until("the container is dead", lambda: not lives(pid), seconds=5)
    assert ends < boottime_s() < ends + 1.5 * PACE
    until("what it forked is dead", lambda: not lives(child), seconds=2)
    end = agent.incarnation("e1") / "exit.json"
    until("the end is written", end.exists)
    assert json.loads(end.read_text())["how"] == "lease ended"


def a_host_that_is_silent_for_longer_than_the_lease_is_lost_and_comes_back(job: Rig) -> None:
    """A frozen agent: its containers are dead when it is lost, and told so when it returns."""
    cluster, seen = job.cluster(lease_s=1.0 * PACE)
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    agent.process.send_signal(signal.SIGSTOP)
    host, granted_ago_s = seen.wait("on_host_lost")
    assert host == "host-1"
    assert granted_ago_s >= 0.75  # the last grant is a poll older than the last word
    assert cluster.hosts() == ()
    until("the lease has ended", lambda: not lives(pid), seconds=2)
    cluster.start_container("r9", "host-1", launch("late"))
    agent.process.send_signal(signal.SIGCONT)
    assert seen.wait("on_container_stopped", "e1")[2] == 137
    assert len(seen.named("on_host_registered")) == 2


SCENARIOS = (
    a_stopped_warden_does_not_keep_a_dead_container_on_the_books,
    the_end_of_the_lease_kills_the_group_although_agent_and_coordinator_are_gone,
    a_host_that_is_silent_for_longer_than_the_lease_is_lost_and_comes_back,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_takes_time(waiting: Waiting, scenario: Scenario) -> None:
    """Each on a host of its own, all of them at once."""
    waiting[scenario].result()


def test_a_new_coordinator_on_another_port_finds_every_container_untouched(job: Rig) -> None:
    """Same pids, all reported again, and the old epoch is refused from then on."""
    cluster, seen = job.cluster(epoch=1)
    agents = [job.agent("host-1"), job.agent("host-2")]
    pids = {host: start(cluster, seen, host, launch(f"e-{host}")) for host in ("host-1", "host-2")}
    for host in pids:
        seen.wait("on_container_checked_in", f"e-{host}")
    cluster.close()
    later, seen = job.cluster(epoch=2)
    assert later.url != cluster.url
    for host, pid in pids.items():
        observed = until(
            f"{host} registers",
            lambda host=host: [a for a in seen.named("on_host_registered") if a[0].host == host],
        )[0][1]
        assert [(c.execution_id, c.pid, c.checked_in, c.state) for c in observed] == [
            (f"e-{host}", pid, True, "running")
        ]
        assert seen.wait("on_container_launched", f"e-{host}") == (f"e-{host}", host, pid)
        seen.wait("on_container_checked_in", f"e-{host}")
        assert lives(pid)
    later.close()
    zombie, seen = job.cluster(epoch=1)
    until("an agent told it of the other", lambda: 2 in zombie.higher_epochs().values())
    ask(zombie, "r9", expires_in_s=0.5)
    seen.wait("on_request_expired", "r9")
    assert zombie.hosts() == ()
    assert all(lives(pid) for pid in pids.values())
    assert all(json.loads((a.directory / "epoch.json").read_text())["epoch"] == 2 for a in agents)


def test_a_killed_agent_comes_back_to_the_same_containers(job: Rig) -> None:
    """Adopted with their pids on the same port; a death meanwhile is reported with its status."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    kept = start(cluster, seen, "host-1", launch("kept"))
    dies = start(cluster, seen, "host-1", launch("dies", processor_id="1"))
    for execution_id in ("kept", "dies"):
        seen.wait("on_container_checked_in", execution_id)
    port = json.loads((agent.directory / "port.json").read_text())["port"]
    agent.kill_9()
    assert lives(kept)
    os.kill(dies, signal.SIGTERM)
    until("its warden saw it dead", (agent.incarnation("dies") / "exit.json").exists)
    agent.restart()
    assert seen.wait("on_container_stopped", "dies") == ("dies", "host-1", 143)
    assert json.loads((agent.directory / "port.json").read_text())["port"] == port
    observed = seen.named("on_host_registered")[-1][1]
    assert {c.execution_id: (c.state, c.pid) for c in observed}["kept"] == ("running", kept)
    assert lives(kept)
    cluster.stop_container("kept", "host-1")
    assert seen.wait("on_container_stopped", "kept")[2] == 143
    assert not lives(kept)


def test_a_stop_outlives_a_killed_agent(job: Rig) -> None:
    """Asked of an agent that is killed then, and of one that isn't there: it is carried out."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    first = start(cluster, seen, "host-1", launch("e1", "stubborn", grace_s=0.5))
    second = start(cluster, seen, "host-1", launch("e2", processor_id="1"))
    seen.wait("on_container_checked_in", "e1")
    seen.wait("on_container_checked_in", "e2")
    cluster.stop_container("e1", "host-1")
    marks = agent.incarnation("e1") / "marks.json"
    until("the stop is on record", lambda: json.loads(marks.read_text())["stop_asked"])
    agent.kill_9()
    cluster.stop_container("e2", "host-1")
    agent.restart()
    assert seen.wait("on_container_stopped", "e1")[2] == 137
    assert seen.wait("on_container_stopped", "e2")[2] == 143
    assert not lives(first)
    assert not lives(second)


def test_a_killed_warden_takes_its_container_with_it(job: Rig) -> None:
    """The kernel kills the container, the agent what it forked; the status is not made up."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", "forks"))
    seen.wait("on_container_checked_in", "e1")
    child = agent.grandchild("e1")
    os.kill(agent.warden_pid("e1"), signal.SIGKILL)
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", None)
    assert not lives(pid)
    assert not lives(child)


def test_stop_all_cleans_up_after_a_killed_sandbox(job: Rig) -> None:
    """By the records alone, with the agent dead or alive: every process is seen dead."""
    cluster, seen = job.cluster()
    dead, alive = job.agent("host-1"), job.agent("host-2")
    pids = [
        start(cluster, seen, host, launch(f"e-{host}", "forks", grace_s=1.0))
        for host in ("host-1", "host-2")
    ]
    for host in ("host-1", "host-2"):
        seen.wait("on_container_checked_in", f"e-{host}")
    pids += [a.grandchild(f"e-{a.host}") for a in (dead, alive)]
    pids += [a.warden_pid(f"e-{a.host}") for a in (dead, alive)]
    cluster.close()
    dead.kill_9()
    for agent in (dead, alive):
        done = agent.stop_all()
        assert (done["exit"], done["alive"]) == (0, [])
        assert f"e-{agent.host}" in {s.get("execution_id") for s in done["stopped"]}
    assert not any(lives(pid) for pid in pids)
    assert alive.process.wait(timeout=5 * PACE) == 0
    assert dead.stop_all() == {"exit": 0, "stopped": [], "alive": []}


def test_nobody_enters_without_the_token(job: Rig) -> None:
    """Wrong token, oversized body, malformed message: refused with the reason, and it goes on."""
    cluster, seen = job.cluster()
    cluster.add_page("/status", "application/json", lambda: b'{"up": true}')
    sync = cluster.url + "/agent/v1/sync"
    assert _status(sync, b"{}", "Bearer wrong") == (401, "the job's token is needed")
    assert _status(sync, b"{}", f"Bearer {TOKEN}")[0] == 400
    assert _status(sync, b"", f"Bearer {TOKEN}", length=str(10**9))[0] == 413
    with urllib.request.urlopen(cluster.url + "/status", timeout=5 * PACE) as response:
        assert json.loads(response.read()) == {"up": True}
    job.agent("host-1")
    seen.wait("on_host_registered")


def test_the_page_of_hosts_tells_when_each_agent_was_heard(job: Rig) -> None:
    """It grows while an agent is frozen, long before the host counts as lost, and falls on the thaw."""
    cluster, seen = job.cluster(lease_s=20.0 * PACE, host_timeout_s=8.0 * PACE)
    agent = job.agent("host-1")
    seen.wait("on_host_registered")

    def silent_ms() -> int:
        with urllib.request.urlopen(cluster.url + "/hosts", timeout=5 * PACE) as response:
            return json.loads(response.read())["hosts"]["host-1"]["silent_ms"]

    assert silent_ms() < 4_000
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 7
        while silent_ms() < 3_000:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)
    deadline = time.monotonic() + 10
    while silent_ms() > 2_500:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "on_host_lost" not in {name for name, *_ in seen.calls}


def _status(
    url: str, body: bytes, authorization: str, length: str | None = None
) -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"Authorization": authorization})
    if length is not None:
        request.add_header("Content-Length", length)
    try:
        with urllib.request.urlopen(request, timeout=5 * PACE) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()).get("error", "")


def test_a_second_agent_of_a_directory_ends_at_once(job: Rig) -> None:
    """Two agents on one set of records would both believe that they own it."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_host_registered")
    second = agent.spawn()
    assert second.wait(timeout=5 * PACE) == 1
    assert agent.process.poll() is None
    assert "another agent has" in agent.log()
    assert isinstance(agent.directory, Path)
    assert cluster.hosts()[0].host == "host-1"
