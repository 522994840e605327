"""Wardens that the cluster's engine starts: each is the process that held the resources before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from samza_dagster.cluster import ContainerLaunch
from tests.contract.agent.outside import Node, node
from tests.contract.agent.pythons import parameters, tried
from tests.contract.agent.rig import launch

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
