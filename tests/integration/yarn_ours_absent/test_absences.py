"""NodeManagers that recover, nodes that are to go, and a coordinator that is away for too long.

The scenarios go on where the one before ended.
"""

from __future__ import annotations

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import Refused
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.job import alive, kill
from tests.rig.ours_on_yarn import (
    agents,
    all_run,
    application,
    applications,
    cluster,
    coordinator,
    decommission,
    free_host,
    node_state,
    pids,
    place,
    processors,
    running,
    undisturbed,
    witnessed,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]


def test_a_node_manager_that_is_back_in_time_knows_what_it_ran(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    host, whole = processors(sandbox)["0"]["host"], running(sandbox)
    with undisturbed(sandbox):
        before = agents(sandbox)
        cluster(sandbox).kill_node_manager(host)
        cluster(sandbox).start_node_manager(host)
        until("it can be told of a container", lambda: node_state(sandbox, host) == "RUNNING")
        assert agents(sandbox) == before
    with witnessed(sandbox):
        place(client, "0", free_host(sandbox, "0"))
        until("all run", lambda: all_run(sandbox), seconds=60)
        until(
            "YARN counts as many as before",
            lambda: running(sandbox) == whole,
        )
        assert judge.judge(deadline_s=90 * PACE).is_good


def test_a_node_that_is_decommissioned_takes_nothing_more_and_what_runs_there_moves_off(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    """Gracefully: its containers and its agent run on. Whoever asks for it is told YARN's word."""
    before = processors(sandbox)
    host = before["0-0"]["host"]
    with undisturbed(sandbox):
        theirs = agents(sandbox)
        decommission(sandbox, host)
        until(
            "clients know it",
            lambda: client.view().hosts[host].yarn_state == "DECOMMISSIONING",
            seconds=90,
        )
        assert client.view().hosts[host].state == "closed"
        assert sandbox.status()["hosts"][host]["yarn_state"] == "DECOMMISSIONING"
        with pytest.raises(Refused, match=f"{host} is DECOMMISSIONING"):
            client.place("1", host)
        assert agents(sandbox) == theirs
    with witnessed(sandbox):
        for processor, each in before.items():
            if each["host"] == host:
                place(client, processor, free_host(sandbox, processor[0]))
        assert host not in {each["host"] for each in processors(sandbox).values()}
        decommission(sandbox)
        until("it is back", lambda: node_state(sandbox, host) == "RUNNING", seconds=60)
        until("clients know it", lambda: client.view().hosts[host].state == "alive", seconds=90)
        assert judge.judge(deadline_s=90 * PACE).is_good


def test_a_node_manager_that_is_back_too_late_ends_what_lived_on_without_it(
    sandbox: Sandbox, judge: Judge
) -> None:
    """YARN gave its containers up long before; they are dead when it ends them, and not before."""
    host, whole = processors(sandbox)["1"]["host"], running(sandbox)
    with witnessed(sandbox):
        before = processors(sandbox)
        with undisturbed(sandbox):
            theirs = agents(sandbox)
            cluster(sandbox).kill_node_manager(host)
            until("YARN has lost it", lambda: node_state(sandbox, host) == "LOST", seconds=60)
            assert running(sandbox) < whole
            assert all_run(sandbox)
            assert agents(sandbox) == theirs
        cluster(sandbox).start_node_manager(host)
        there = [each["pid"] for each in before.values() if each["host"] == host]
        until("it ends them", lambda: not any(map(alive, there)), seconds=60)
        until(
            "all run, and its agent is another one",
            lambda: all_run(sandbox) and agents(sandbox).get(host) not in (None, theirs[host]),
            seconds=120,
        )
        until(
            "YARN counts as many as before",
            lambda: running(sandbox) == whole,
        )
        assert judge.judge(deadline_s=120 * PACE).is_good


def test_an_application_that_yarn_ends_for_want_of_its_master_is_followed_by_another(
    sandbox: Sandbox, judge: Judge
) -> None:
    """All containers are dead by then, by YARN; the next leader's application runs the job on."""
    with witnessed(sandbox):
        ran, given_up = pids(sandbox), application(sandbox)["id"]
        kill(coordinator(sandbox).pid)
        until("YARN ends it", lambda: application(sandbox)["state"] == "FAILED", seconds=60)
        until("its containers are dead", lambda: not any(map(alive, ran.values())), seconds=60)
        sandbox.files.start(on_spawn=sandbox.registry.add)
        until("the job runs on", lambda: all_run(sandbox), seconds=120)
        found = [(each["id"], each["state"]) for each in applications(sandbox)]
        assert found == [(given_up, "FAILED"), (application(sandbox)["id"], "RUNNING")]
        assert judge.judge(deadline_s=120 * PACE).is_good
