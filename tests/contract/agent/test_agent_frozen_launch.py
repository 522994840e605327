"""A warden that freezes between its fork and its record: nobody knows its container's process."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from samza_dagster.agent import main as agent_main
from samza_dagster.cluster import LocalCluster
from tests.contract.agent.rig import (
    Agent,
    Recorder,
    Rig,
    Scenario,
    Waiting,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    reserve,
    until,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract

HOST = "host-1"
_SCRIPT = """#!{python} -I
import os, runpy, signal, sys

sys.executable = {path!r}
assert sys.argv[1] == "-I"
sys.argv = sys.argv[2:]
if sys.argv[0].endswith("warden.py"):
    sys.path.insert(0, {package!r})
    from samza_dagster.agent import procfs
    named = procfs.name_of

    def name_of(pid):
        if pid != os.getpid():  # its child's name, for the record
            with open(sys.argv[1] + "/frozen", "w") as file:
                file.write("%d %d" % (os.getpid(), pid))
            os.kill(os.getpid(), signal.SIGSTOP)
        return named(pid)

    procfs.name_of = name_of
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def frozen_launch(
    job: Rig, *, lease_s: float = 30.0 * PACE
) -> tuple[LocalCluster, Recorder, Agent, int, int]:
    """The pids of a warden that stands still and of the container that it has begun."""
    python = job.root / "python"
    package = str(Path(agent_main.__file__).parents[2])
    python.write_text(_SCRIPT.format(python=sys.executable, path=str(python), package=package))
    python.chmod(0o700)
    cluster, seen = job.cluster(lease_s=lease_s)
    agent = job.agent(HOST, program=(str(python), "-I", agent_main.__file__))
    reserve(cluster, seen, "r1", HOST, memory_mb=100)
    cluster.start_container("r1", HOST, launch("e1", "works", grace_s=0.5))
    file = agent.incarnation("e1") / "frozen"
    told = until("its warden is frozen", lambda: file.read_text() if file.exists() else "")
    warden, container = map(int, told.split())
    return cluster, seen, agent, warden, container


def assert_never_worked(agent: Agent) -> None:
    assert not (agent.incarnation("e1") / "work" / "job_model.json").exists()


def assert_both_are_dead(warden: int, container: int, *, within_s: float) -> None:
    until("both are dead", lambda: not (lives(warden) or lives(container)), seconds=within_s)


def a_warden_that_froze_as_it_launched_doesnt_outlive_the_lease(job: Rig) -> None:
    """The agent kills it 2 s later, and its child dies with it, without ever having had tasks."""
    cluster, _, agent, warden, container = frozen_launch(job, lease_s=2.0 * PACE)
    cluster.close()
    ends = lease_end_s(agent)
    assert_both_are_dead(warden, container, within_s=8 * PACE)
    assert ends < boottime_s() < ends + 2.0 + 1.0 * PACE
    assert_never_worked(agent)


def a_warden_that_froze_as_it_launched_doesnt_outlive_a_stop(job: Rig) -> None:
    """Told as a start that failed, after the grace."""
    cluster, seen, agent, warden, container = frozen_launch(job)
    cluster.stop_container("e1", HOST)
    assert "its warden was killed" in seen.wait("on_start_failed", "e1", within_s=6 * PACE)[2]
    assert_both_are_dead(warden, container, within_s=1 * PACE)
    assert_never_worked(agent)


def the_next_agent_ends_a_warden_that_froze_as_it_launched(job: Rig) -> None:
    """It knows it by the name in its claim."""
    cluster, seen, agent, warden, container = frozen_launch(job)
    agent.kill_9()
    agent.restart()
    until("the host has registered", lambda: len(seen.named("on_host_registered")) == 2)
    cluster.stop_container("e1", HOST)
    seen.wait("on_start_failed", "e1", within_s=6 * PACE)
    assert_both_are_dead(warden, container, within_s=1 * PACE)
    assert_never_worked(agent)


def stop_all_ends_a_warden_that_froze_as_it_launched(job: Rig) -> None:
    """Instead of waiting for its record for ever."""
    _, _, agent, warden, container = frozen_launch(job)
    done = agent.stop_all()
    assert (done["exit"], done["alive"]) == (0, [])
    assert not lives(warden)
    assert not lives(container)
    assert_never_worked(agent)


def a_job_model_is_released_once_the_process_is_known(job: Rig) -> None:
    """A warden that thaws goes on where it stood."""
    _, seen, agent, warden, container = frozen_launch(job)
    until("it asks for its JobModel", lambda: has_a_connection(container))
    assert not (agent.incarnation("e1") / "marks.json").exists()
    os.kill(warden, signal.SIGCONT)
    assert seen.wait("on_container_launched", "e1")[2] == container
    seen.wait("on_container_checked_in", "e1")
    assert json.loads((agent.incarnation("e1") / "marks.json").read_text())["released"]


def has_a_connection(pid: int) -> bool:
    try:
        descriptors = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:  # one was closed meanwhile
        return False
    return any(each.startswith("socket:") for each in descriptors)


SCENARIOS = (
    a_warden_that_froze_as_it_launched_doesnt_outlive_the_lease,
    a_warden_that_froze_as_it_launched_doesnt_outlive_a_stop,
    the_next_agent_ends_a_warden_that_froze_as_it_launched,
    stop_all_ends_a_warden_that_froze_as_it_launched,
    a_job_model_is_released_once_the_process_is_known,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_who_froze_as_it_launched_owns_nothing(waiting: Waiting, scenario: Scenario) -> None:
    """Each on a host of its own, all of them at once."""
    waiting[scenario].result()
