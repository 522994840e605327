"""Each process of our coordinator on YARN is killed, or hangs; the others and YARN go on.

What dies, and only that, is replaced. The scenarios go on where the one before ended.
"""

from __future__ import annotations

import os
import signal

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.job import alive, kill, parent_of
from tests.rig.ours_on_yarn import (
    agents,
    all_run,
    coordinator,
    free_host,
    hadoop_gateway,
    place,
    processors,
    running,
    undisturbed,
    witnessed,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]


def test_a_coordinator_that_is_killed_is_followed_by_one_of_the_same_application(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    with undisturbed(sandbox):
        kill(coordinator(sandbox).pid)
        sandbox.files.start(on_spawn=sandbox.registry.add)
        until("the next one leads", lambda: all_run(sandbox), seconds=60)
    with witnessed(sandbox):
        place(client, "0", free_host(sandbox, "0"))
        assert judge.judge(deadline_s=90 * PACE).is_good


def test_a_gateway_that_is_killed_is_started_again_by_the_same_coordinator(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    leader, gateway = coordinator(sandbox), hadoop_gateway(sandbox)
    with undisturbed(sandbox):
        kill(gateway)
    with witnessed(sandbox):
        place(client, "0", free_host(sandbox, "0"), seconds=10)
        assert coordinator(sandbox) == leader
        assert hadoop_gateway(sandbox) != gateway
        assert judge.judge(deadline_s=90 * PACE).is_good


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_dies_or_hangs_is_replaced_and_its_containers_are_adopted(
    sandbox: Sandbox, client: PlacementClient, judge: Judge, how: signal.Signals
) -> None:
    """One that hangs is replaced before its silence is that of a lost host."""
    host, before = processors(sandbox)["1"]["host"], agents(sandbox)
    whole = running(sandbox)
    with undisturbed(sandbox):
        os.kill(before[host], how)
        until(
            "another agent",
            lambda: agents(sandbox).get(host) not in (None, before[host]),
            seconds=40,
        )
        until(
            "the ResourceManager counts it",
            lambda: running(sandbox) == whole,
        )
        until("its host is heard", lambda: all_run(sandbox))
        assert not alive(before[host])
        assert {h: pid for h, pid in agents(sandbox).items() if h != host} == {
            h: pid for h, pid in before.items() if h != host
        }
    with witnessed(sandbox):
        place(client, "1", free_host(sandbox, "1"))
        assert judge.judge(deadline_s=90 * PACE).is_good


@pytest.mark.parametrize("whom", ["warden", "container"])
def test_a_container_that_dies_and_one_whose_warden_dies_are_replaced(
    sandbox: Sandbox, judge: Judge, whom: str
) -> None:
    whole = running(sandbox)
    with witnessed(sandbox):
        before = processors(sandbox)["1"]
        warden = parent_of(before["pid"])
        os.kill(warden if whom == "warden" else before["pid"], signal.SIGKILL)
        until("both have ended", lambda: not alive(warden) and not alive(before["pid"]))
        until(
            "another one runs",
            lambda: all_run(sandbox) and processors(sandbox)["1"]["pid"] != before["pid"],
            seconds=90,
        )
        assert judge.judge(deadline_s=90 * PACE).is_good
    until(
        "YARN counts as many as before",
        lambda: running(sandbox) == whole,
    )
