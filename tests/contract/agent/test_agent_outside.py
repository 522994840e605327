"""Wardens that the cluster's engine starts: each is the process that held the resources before."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from samza_dagster.cluster import ContainerLaunch
from tests.contract.agent.outside import Node, node
from tests.contract.agent.pythons import parameters, tried
from tests.contract.agent.rig import launch, lives, until
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract

HELD = "container_e17_1700000000001_0001_01_000002"


@pytest.fixture
def yarn(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with node(tmp_path, getattr(request, "param", sys.executable)) as made:
        yield made


def without_model(wanted: ContainerLaunch) -> ContainerLaunch:
    return replace(wanted, job_model_json="")


def open_sockets(pid: int) -> list[str]:
    """The sockets that a process has open."""
    links = (str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    return [link for link in links if link.startswith("socket:")]


@pytest.mark.parametrize("yarn", parameters(tried()), indirect=True)
def test_a_hold_is_the_warden_of_what_is_parked_started_and_stopped(yarn: Node) -> None:
    """One process from the reservation to the end, and the engine is shown the exit status."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    assert it.reserve("r1", HELD, without_model(launch("e1"))) == (True, "")
    pid = yarn.parked("e1")
    assert it.reserved() == {"r1": (HELD, None)}
    assert yarn.agent.warden_pid("e1") == hold.pid
    assert it.start("r1", launch("e1")) == (True, "")
    assert it.wait_for("e1", state="running", checked_in=True)["pid"] == pid
    assert it.reserved() == {"r1": (HELD, "e1")}
    assert not open_sockets(hold.pid)
    assert it.do("stop", execution_id="e1") == (True, "")
    assert it.wait_for("e1", state="dead")["exit_status"] == 143
    assert hold.ended() == 143
    assert it.reserved() == {}


def test_an_agent_that_is_killed_at_each_step_changes_nothing(yarn: Node) -> None:
    """Holds connect again, what is parked stays parked, what runs is adopted: one process in all."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    yarn.waits(HELD)
    yarn.kill_agent()
    yarn.waits(HELD, times=2)
    assert it.reserve("r1", HELD) == (True, "")
    yarn.kill_agent()
    yarn.waits(HELD, times=3)
    until("it is reported again", lambda: it.reserved() == {"r1": (HELD, None)})
    # A stub would end with the connection that it waits on; this one waits for nothing.
    wanted = launch("e1", command=("sleep", "600"))
    assert it.reserve("r1", HELD, without_model(wanted)) == (True, "")
    pid = yarn.parked("e1")
    yarn.kill_agent()
    assert yarn.parked("e1") == pid
    assert it.start("r1", wanted) == (True, "")
    it.wait_for("e1", state="running", pid=pid)
    yarn.kill_agent()
    it.wait_for("e1", state="running", pid=pid)
    stop = it.send("stop", execution_id="e1")
    yarn.kill_agent()
    assert it.answer(stop) == (True, "")
    assert it.wait_for("e1", state="dead")["exit_status"] == 128 + 15
    assert hold.ended() == 128 + 15


@pytest.mark.parametrize("hangs", [False, True])
def test_an_agent_takes_the_place_of_one_that_the_engine_has_lost_sight_of(
    yarn: Node, *, hangs: bool
) -> None:
    """What runs is adopted; an agent that hangs is killed."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    assert it.reserve("r1", HELD) == (True, "")
    assert it.start("r1", launch("e1")) == (True, "")
    pid = it.wait_for("e1", state="running", checked_in=True)["pid"]
    first = yarn.agent.process
    if hangs:
        first.send_signal(signal.SIGSTOP)
    yarn.agent.restart()
    assert first.wait(timeout=30 * PACE) == (-signal.SIGKILL if hangs else 0)
    assert it.do("stop", execution_id="e1") == (True, "")
    assert it.wait_for("e1", state="dead")["pid"] == pid
    assert hold.ended() == 143


def test_a_start_waits_for_a_hold_that_comes_late(yarn: Node) -> None:
    """Also past the agent's death; the hold becomes the warden as soon as it connects."""
    it = yarn.coordinator
    assert it.reserve("r1", HELD) == (True, "")
    assert it.start("r1", launch("e1")) == (True, "")
    it.wait_for("e1", state="launching")
    yarn.kill_agent()
    hold = yarn.hold(HELD)
    it.wait_for("e1", state="running", checked_in=True)
    assert yarn.agent.warden_pid("e1") == hold.pid


def test_what_waits_for_its_hold_is_stopped_or_discarded_at_once(yarn: Node) -> None:
    """And the holds that come after that are told to end."""
    it = yarn.coordinator
    assert it.reserve("r1", HELD) == (True, "")
    assert it.start("r1", launch("e1")) == (True, "")
    assert it.do("stop", execution_id="e1") == (True, "")
    failed = it.wait_for("e1", state="failed")
    assert failed["why"] == "stopped before it was started"
    assert it.reserve("r2", "held_2", without_model(launch("e2"))) == (True, "")
    record = yarn.agent.incarnation("e2")
    assert record.exists()
    assert it.do("release", request_id="r2") == (True, "")
    until("its record is gone", lambda: not record.exists())
    late = [yarn.hold(HELD), yarn.hold("held_2")]
    assert [hold.ended() for hold in late] == [0, 0]
    assert it.reserved() == {}


def test_a_release_ends_the_hold(yarn: Node) -> None:
    """With what is parked on it, or with nothing."""
    it, bare, parked = yarn.coordinator, yarn.hold(HELD), yarn.hold("held_2")
    assert it.reserve("r1", HELD) == (True, "")
    assert it.reserve("r2", "held_2", without_model(launch("e2", "stubborn"))) == (True, "")
    pid = yarn.parked("e2")
    yarn.waits(HELD)
    assert it.do("release", request_id="r1") == (True, "")
    assert it.do("release", request_id="r2") == (True, "")
    assert (bare.ended(), parked.ended()) == (0, 0)
    assert not lives(pid)
    assert "its reservation was given back" in bare.said()


def test_what_was_parked_in_vain_gives_its_hold_back(yarn: Node) -> None:
    """It crashed, or its start came with another launch: that is a launch as ever, on the same hold."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    other = yarn.hold("held_2")
    assert it.reserve("r1", HELD, without_model(launch("e1", "crash"))) == (True, "")
    yarn.waits(HELD, times=2)
    until("its record is gone", lambda: not yarn.agent.incarnation("e1").exists())
    assert it.reserve("r2", "held_2", without_model(launch("e2", "stubborn"))) == (True, "")
    pid = yarn.parked("e2")
    changed = replace(launch("e2", "crash"), environment=(("NEW", "1"),))
    assert it.start("r2", changed) == (True, "")
    assert it.wait_for("e2", state="dead")["exit_status"] == 7
    assert other.ended() == 7
    assert not lives(pid)
    assert it.start("r1", launch("e1", "crash")) == (True, "")
    assert it.wait_for("e1", state="dead")["exit_status"] == 7
    assert hold.ended() == 7


def test_a_container_dies_with_the_hold_that_became_its_warden(yarn: Node) -> None:
    """As when the engine kills it: the agent is told by the kernel, not by the engine."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    assert it.reserve("r1", HELD) == (True, "")
    assert it.start("r1", launch("e1", "forks")) == (True, "")
    pid = it.wait_for("e1", state="running", checked_in=True)["pid"]
    grandchild = yarn.agent.grandchild("e1")
    hold.kill_9()
    dead = it.wait_for("e1", state="dead")
    assert (dead["exit_status"], dead["why"]) == (None, "its warden was killed")
    assert not lives(pid)
    assert not lives(grandchild)
    assert it.reserved() == {}


def test_a_hold_that_dies_while_it_waits_takes_its_reservation_with_it(yarn: Node) -> None:
    """After the time in which it could be back; a start is refused then, with the reason."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    assert it.reserve("r1", HELD) == (True, "")
    yarn.waits(HELD)
    hold.kill_9()
    yarn.kill_agent()  # which asks for it back, too
    until("nothing is reserved", lambda: it.report and it.reserved() == {})
    assert it.start("r1", launch("e1")) == (False, "no resource is held for request r1")


def test_the_engine_is_shown_how_what_never_ran_ended(yarn: Node) -> None:
    """A program that isn't there; a hold that was asked to end while it waited."""
    it, hold = yarn.coordinator, yarn.hold(HELD)
    assert it.reserve("r1", HELD) == (True, "")
    assert it.start("r1", launch("e1", command=("/no/such/program",))) == (True, "")
    assert "No such file" in it.wait_for("e1", state="failed")["why"]
    assert hold.ended() == 4
    asked = yarn.hold("held_2")
    yarn.waits("held_2")
    asked.process.terminate()
    assert asked.ended() == -15


def test_a_reservation_needs_a_hold_of_its_own(yarn: Node) -> None:
    """Refused with one that another request has, or with another than before."""
    it = yarn.coordinator
    assert it.reserve("r1", HELD) == (True, "")
    assert it.reserve("r1", HELD) == (True, "")
    assert it.reserve("r2", HELD) == (False, f"request r1 is reserved on hold {HELD}")
    assert it.reserve("r1", "held_2") == (
        False,
        f"request r1 is reserved on hold {HELD}",
    )
