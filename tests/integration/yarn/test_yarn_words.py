"""What the real ResourceManager tells a client beside the coordinator stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.waiting import until
from tests.rig.yarn_job import kill_application, run_coordinator

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]


@pytest.fixture(scope="module")
def url(sandbox: Sandbox) -> str:
    return str(sandbox.status()["resource_manager"])


@pytest.fixture(scope="module")
def asking(servers: str, url: str) -> Iterator[PlacementClient]:
    """A client that knows where YARN is."""
    connection = demo_job.connection(servers, yarn_resource_manager=url)
    client = PlacementClient(connection)
    yield client
    client.close()


def test_nodes_and_application_are_known(
    sandbox: Sandbox, asking: PlacementClient, url: str
) -> None:
    """Every node, whether a container was there or not; not the Application Master's own port."""
    view = asking.view()
    facts = sandbox.status()
    assert set(view.hosts) == set(facts["hosts"])
    running = {host for host, each in facts["hosts"].items() if each["state"] == "alive"}
    assert {host for host, each in view.hosts.items() if each.state == "alive"} == running
    assert all(view.hosts[host].free_memory_mb is not None for host in running)
    assert view.application is not None
    assert (view.application.id, view.application.state) == (facts["application"], "RUNNING")
    assert view.dead is None
    with pytest.raises(Unreachable, match="/am: "):
        ResourceManager([url]).containers(view.application)


def test_a_node_that_is_lost_is_told_and_no_destination(
    sandbox: Sandbox, asking: PlacementClient
) -> None:
    """By the ResourceManager's own word, after its own patience."""
    gone = [h for h, each in sandbox.status()["hosts"].items() if each["state"] == "lost"]
    lost = gone[0] if gone else sandbox.status()["processors"]["1-0"]["host"]
    if not gone:
        sandbox.yarn.lose(lost)
    until("it is lost", lambda: asking.view().hosts[lost].state == "lost", seconds=60)
    assert asking.view().hosts[lost].yarn_state == "LOST"
    with pytest.raises(Refused, match=f"ResourceManager; seen: {lost} is LOST"):
        asking.place("0", lost)


def test_a_job_isnt_adopted_while_yarn_runs_it(
    tmp_path: Path, servers: str, url: str, sandbox: Sandbox
) -> None:
    """At once: its containers' reports, a minute apart, aren't waited for."""
    ran = run_coordinator(tmp_path, servers, "--adopt", "--yarn-resource-manager", url)
    assert ran.returncode == 2
    assert f"{sandbox.status()['application']} is RUNNING" in ran.stderr


def test_a_job_that_was_killed_is_dead_and_nothing_is_asked_of_it(
    sandbox: Sandbox, asking: PlacementClient
) -> None:
    """The last of all: the sandbox's job is gone afterwards."""
    application = sandbox.status()["application"]
    kill_application(sandbox)
    told = until("it is told", lambda: asking.view().dead, seconds=60)
    assert f"{application} is KILLED" in told
    with pytest.raises(Refused, match="deploy the job again"):
        asking.place("0", "LAST_SEEN")
    assert asking.view().queued == ()
