"""Our coordinator on a real YARN: what the kernel, the ResourceManager and the topics say of it.

The scenarios go on where the one before ended.
"""

from __future__ import annotations

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox.hosts import HOST_MEMORY_MB
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.yarn.runner import AGENT_MEMORY_MB
from tests.rig.job import alive
from tests.rig.ours_on_yarn import (
    CONTAINERS,
    all_run,
    application,
    cluster,
    free_host,
    node_states,
    place,
    processors,
    running,
    undisturbed,
    witnessed,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.yarn


def test_agents_and_containers_are_containers_of_one_application(sandbox: Sandbox) -> None:
    facts = sandbox.status()
    assert facts["state"] == "up"
    assert all_run(sandbox)
    found = application(sandbox)
    assert (found["state"], found["runningContainers"]) == ("RUNNING", len(facts["hosts"]) + CONTAINERS)  # fmt: skip
    placed = facts["processors"]
    assert placed["0"]["host"] != placed["0-0"]["host"]
    assert {each["state"] for each in facts["hosts"].values()} == {"alive"}
    assert {each["memory_mb"] for each in facts["hosts"].values()} == {HOST_MEMORY_MB + AGENT_MEMORY_MB}  # fmt: skip


def test_an_active_goes_to_its_standbys_host_and_nothing_is_lost(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    with witnessed(sandbox):
        before = processors(sandbox)
        place(client, "0", "STANDBY")
        after = processors(sandbox)
        assert after["0"]["host"] == before["0-0"]["host"]
        assert alive(after["0"]["pid"])
        assert not alive(before["0"]["pid"])
        until("all run", lambda: all_run(sandbox), seconds=60)
        verdict = judge.judge(deadline_s=90 * PACE)
        assert verdict.is_good, verdict


def test_a_node_managers_death_alone_is_no_containers_death(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    """YARN says that its containers are lost; they live, nothing takes their place, and they move in order."""
    with witnessed(sandbox):
        before = processors(sandbox)
        host = before["1"]["host"]
        cluster(sandbox).kill_node_manager(host)
        cluster(sandbox).start_node_manager(host)
        lost = len([each for each in before.values() if each["host"] == host]) + 1
        whole = len(sandbox.hosts) + CONTAINERS
        until(
            "YARN has given up what ran there",
            lambda: running(sandbox) <= whole - lost,
            seconds=60,
        )
        assert {p: each["pid"] for p, each in processors(sandbox).items()} == {
            p: each["pid"] for p, each in before.items()
        }
        assert all_run(sandbox)
        place(client, "1", free_host(sandbox, "1"))
        assert not alive(before["1"]["pid"])
        until("all run", lambda: all_run(sandbox), seconds=60)
        assert judge.judge(deadline_s=90 * PACE).is_good


@pytest.mark.longyarn
def test_a_resource_manager_that_is_started_again_goes_on_with_the_application(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    with undisturbed(sandbox):
        cluster(sandbox).kill_resource_manager()
        cluster(sandbox).start_resource_manager()
        until(
            "the application runs, and its nodes are back",
            lambda: (
                application(sandbox).get("state") == "RUNNING"
                and node_states(sandbox) == {"RUNNING"}
            ),
            seconds=90,
        )
    with witnessed(sandbox):
        place(client, "0", free_host(sandbox, "0"))
        assert judge.judge(deadline_s=90 * PACE).is_good


@pytest.mark.longyarn
def test_a_host_that_is_lost_takes_its_containers_along_and_the_standby_takes_over(
    sandbox: Sandbox, judge: Judge
) -> None:
    with witnessed(sandbox):
        before = processors(sandbox)
        host = before["1"]["host"]
        sandbox.own_yarn.lose(host)
        until("its containers are dead", lambda: not alive(before["1"]["pid"]))
        until(
            "the active runs elsewhere",
            lambda: (
                (found := processors(sandbox).get("1", {})).get("state") == "running"
                and found["host"] not in (None, host)
            ),
            seconds=120,
        )
        assert judge.judge(deadline_s=120 * PACE).is_good
        cluster(sandbox).start_node(host)
        until("it is back, and its agent is heard", lambda: all_run(sandbox), seconds=60)
