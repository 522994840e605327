"""An agent launches, serves, stops and confirms; the kernel is the judge."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from tests.contract.agent.rig import Rig, launch, lives, reserve, start, until
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def test_a_container_is_launched_checks_in_and_is_stopped(job: Rig) -> None:
    """Every callback comes once, in the order in which it happened, and the pid is the kernel's."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_host_registered")
    pid = start(cluster, seen, "host-1", launch("e1", stores=("j-1/s/T",)))
    seen.wait("on_container_checked_in", "e1")
    assert lives(pid)
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) == agent.warden_pid("e1")
    assert cluster.hosts()[0].free_memory_mb == 900
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 143)
    assert not lives(pid)
    until("its memory is free again", lambda: cluster.hosts()[0].free_memory_mb == 1000)
    names = [name for name, _ in seen.calls]
    assert names == [
        "on_host_registered",
        "on_host_told",
        "on_resource_allocated",
        "on_container_launched",
        "on_container_checked_in",
        "on_container_stopped",
    ]
    assert agent.incarnation("e1").exists()
    cluster.forget_container("e1", "host-1")
    until("its record is dropped", lambda: not agent.incarnation("e1").exists())


def test_a_container_gets_its_job_model_its_environment_and_filled_placeholders(job: Rig) -> None:
    """What the container saw is what Samza's main class needs; nobody else may read it."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    work = agent.incarnation("e1") / "work"
    assert json.loads((work / "job_model.json").read_text()) == {
        "config": {"a": "é"},
        "containers": {},
    }
    environment = json.loads((work / "environment").read_text())
    state = str(agent.directory / "state")
    assert environment["LOGGED_STORE_BASE_DIR"] == state
    assert environment["SAMZA_COORDINATOR_URL"].endswith("/c/e1/")
    assert (work / "argv").read_text().split("\n") == [
        "plain",
        "host-1",
        str(agent.directory),
        str(work),
        state,
    ]
    for secret in ("job_model.json", "spec.json", "container.log"):
        assert stat.S_IMODE((agent.incarnation("e1") / secret).stat().st_mode) == 0o600
    assert (agent.directory / "hosts").read_text().startswith("127.0.0.1 localhost")
    url = environment["SAMZA_COORDINATOR_URL"]
    assert _get(url + "locality?processorId=0") == {
        "id": "0",
        "host": "host-1",
        "jmx-url": "",
        "jmx-tunneling-url": "",
    }
    assert set(_get(url + "locality")["processor-localities"]) == {"0"}
    assert _get(url + "containerHeartbeat?executionContainerId=e1") == {"alive": True}
    assert _get(url + "containerHeartbeat?executionContainerId=other") == {"alive": False}
    stranger = url.replace("/e1/", "/e9/")
    assert _get(stranger + "containerHeartbeat?executionContainerId=e9") == {"alive": False}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _get(stranger)


def test_a_container_has_a_temporary_directory_of_its_own_that_goes_with_its_record(
    job: Rig,
) -> None:
    """What one that is killed leaves there fills no disk; a launch that names another has that."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    named = launch("e2")
    named = replace(named, environment=(*named.environment, ("TMPDIR", "{state_dir}")))
    for wanted in (launch("e1"), named):
        start(cluster, seen, "host-1", wanted)
        seen.wait("on_container_checked_in", wanted.execution_id)
    own = agent.incarnation("e1") / "work" / "tmp"
    environments = [
        json.loads((agent.incarnation(each) / "work" / "environment").read_text())["TMPDIR"]
        for each in ("e1", "e2")
    ]
    assert environments == [str(own), str(agent.directory / "state")]
    (own / "unpacked.so").write_bytes(b"left behind")
    os.kill(seen.named("on_container_launched", "e1")[0][2], signal.SIGKILL)
    assert seen.wait("on_container_stopped", "e1")[2] == 137
    cluster.forget_container("e1", "host-1")
    until("it is gone with the record", lambda: not own.exists())


def test_a_container_that_ignores_sigterm_is_killed_after_its_grace(job: Rig) -> None:
    """Stopped is told only when it is dead, and 137 says how."""
    cluster, seen = job.cluster()
    job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", "stubborn", grace_s=0.5))
    seen.wait("on_container_checked_in", "e1")
    asked = time.monotonic()
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1")[2] == 137
    assert 0.5 <= time.monotonic() - asked < 0.5 + 2.5 * PACE
    assert not lives(pid)


def test_what_a_container_forked_is_dead_before_it_counts_as_stopped(job: Rig) -> None:
    """The store is free only when the whole group is gone, also a child that ignores SIGTERM."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    start(cluster, seen, "host-1", launch("e1", "forks"))
    seen.wait("on_container_checked_in", "e1")
    child = agent.grandchild("e1")
    assert lives(child)
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1")[2] == 143
    assert not lives(child)


def test_a_crash_and_a_program_that_is_not_there_are_told_apart(job: Rig) -> None:
    """A process that existed has stopped with its status; one that never did has failed to start."""
    cluster, seen = job.cluster()
    job.agent("host-1")
    start(cluster, seen, "host-1", launch("e1", "crash"))
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 7)
    reserve(cluster, seen, "r2")
    cluster.start_container("r2", "host-1", launch("e2", command=("/no/such/program",)))
    assert "No such file" in seen.wait("on_start_failed", "e2")[2]
    assert not seen.named("on_container_launched", "e2")
    until("both resources are free again", lambda: cluster.hosts()[0].free_memory_mb == 1000)


def test_a_start_without_a_resource_is_refused_and_a_stop_of_the_unknown_is_done(job: Rig) -> None:
    """Nothing runs that wasn't reserved; what the records don't have doesn't run."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_host_registered")
    cluster.start_container("never-asked", "host-1", launch("e1"))
    assert "no resource is held" in seen.wait("on_start_failed", "e1")[2]
    assert not agent.incarnation("e1").exists()
    cluster.stop_container("e7", "host-1")
    assert seen.wait("on_container_stopped", "e7") == ("e7", "host-1", None)


def test_a_start_delivered_twice_runs_once(job: Rig) -> None:
    """Twice in one queue, and again from a later coordinator after the container's death."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    wanted = launch(
        "e1", command=(sys.executable, "-c", f"open({str(job.root / 'runs')!r}, 'a').write('x')")
    )
    start(cluster, seen, "host-1", wanted)
    cluster.start_container("r-e1", "host-1", wanted)
    seen.wait("on_container_stopped", "e1")
    cluster.close()
    agent.kill_9()
    agent.restart()
    later, seen = job.cluster(epoch=2)
    reserve(later, seen, "r-e1")
    later.start_container("r-e1", "host-1", wanted)
    reserve(later, seen, "after")  # commands are carried out in order
    assert (job.root / "runs").read_text() == "x"


def test_a_start_for_a_host_that_has_not_registered_is_dropped(job: Rig) -> None:
    """It may come when something else runs in its stead; said again after that, it is carried out."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    seen.wait("on_host_registered")
    reserve(cluster, seen, "r-e1", expires_in_s=5)
    cluster.close()
    agent.kill_9()
    later, seen = job.cluster(epoch=2)
    later.start_container("r-e1", "host-1", launch("e1"))
    agent.restart()
    # Held since before; the answer to the second comes behind all that was sent earlier.
    for request_id in ("r-e1", "after"):
        reserve(later, seen, request_id, expires_in_s=30)
    assert not agent.incarnation("e1").exists()
    later.start_container("r-e1", "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")


def test_a_job_model_is_held_until_its_store_directories_are_free(job: Rig) -> None:
    """The standby's store: its successor's JVM may start, but owns nothing before the other is dead."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    first = start(cluster, seen, "host-1", launch("e1", stores=("j-1/s/T",), grace_s=0.5))
    seen.wait("on_container_checked_in", "e1")
    second = start(cluster, seen, "host-1", launch("e2", stores=("j-1/s/T", "j-1/s/U")))
    start(cluster, seen, "host-1", launch("e3", stores=("j-1/s/T2",)))
    seen.wait("on_container_checked_in", "e3")  # a neighbour's name that only begins alike
    assert not (agent.incarnation("e2") / "work" / "job_model.json").exists()
    assert not seen.named("on_container_checked_in", "e2")
    assert lives(first)
    assert lives(second)
    cluster.stop_container("e1", "host-1")
    seen.wait("on_container_checked_in", "e2")
    assert not lives(first)
    names = [(name, arguments[0]) for name, arguments in seen.calls]
    assert names.index(("on_container_stopped", "e1")) < names.index(
        ("on_container_checked_in", "e2")
    )


def _get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=5 * PACE) as response:
        return json.loads(response.read())
