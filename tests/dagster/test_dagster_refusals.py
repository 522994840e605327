"""A refusal shows of each host the rule that decides, what was seen and the smallest change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster import serialize_value
from placement_runs import WORLDS, placement_job

from samza_dagster.client import PlacementClient
from samza_dagster.client.plan import Plan
from samza_dagster.client.views import HostView
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One of each test's own."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def refused(
    instance: dg.DagsterInstance, job: str, world: SteppedJob, step: str = "", **config: Any
) -> dict[str, dict[str, Any]]:
    """The table of the step that failed, by host; `hosts_table` has a row for each."""
    WORLDS["reexecuted"] = world
    result = placement_job(job).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": config}}},
        instance=instance,
        raise_on_error=False,
    )
    data = result.failure_data_for_node(step or f"plan_{job}")
    assert data is not None
    assert data.user_failure_data is not None
    told = data.user_failure_data.metadata
    assert told["error"].value == "Refused"
    for entry in instance.all_logs(result.run_id):
        assert len(serialize_value(entry)) < 300_000, entry.user_message[:80]
    assert world.requests == {}
    assert "hosts_table" in told
    return {r.data["host"]: dict(r.data) for r in told["hosts_table"].value.records}


@pytest.mark.parametrize("job", ["move_container", "move_with_standby", "spin_up_standby"])
def test_a_destination_that_a_rule_forbids_is_explained_host_by_host(
    instance: dg.DagsterInstance, job: str
) -> None:
    """As `explain` does."""
    world = SteppedJob.demo()
    world.hosts["host-5"] = HostView("host-5", "lost")
    rows = refused(instance, job, world, processor="0", destination="host-5")
    assert set(rows) == set(world.hosts)
    assert not rows["host-5"]["legal"]
    assert "agent" in rows["host-5"]["rule"]
    assert rows["host-2"]["legal"]
    of_group = rows["host-1" if job == "spin_up_standby" else "host-3"]
    assert "never on one host" in of_group["rule"]
    assert "0" in of_group["seen"]
    assert "first: samza-dagster place" in of_group["fix"]


def test_a_failover_without_a_standby_says_of_each_host_what_would_make_it_legal(
    instance: dg.DagsterInstance,
) -> None:
    """A standby must be there: where one may be started, and where not."""
    world = SteppedJob.demo()
    del world.at["0-0"]
    rows = refused(instance, "fail_over", world, processor="0")
    assert set(rows) == set(world.hosts)
    assert not any(row["legal"] for row in rows.values())
    assert rows["host-4"]["fix"] == "spin_up_standby of 0 to host-4"
    assert "active 0 is on host-1" in rows["host-1"]["seen"]
    assert rows["host-1"]["fix"].startswith("move 0 first")


def test_a_drain_that_cant_be_says_where_each_container_may_go(
    instance: dg.DagsterInstance,
) -> None:
    """Never to the host that is drained."""
    world = SteppedJob(hosts={}, at={"0": "host-1", "0-0": "host-2"})
    world.hosts = {name: HostView(name, "alive") for name in ("host-1", "host-2")}
    rows = refused(instance, "drain_host", world, host="host-1")
    assert set(rows) == {"host-2"}
    assert rows["host-2"]["container"] == "0"
    assert not rows["host-2"]["legal"]


def test_what_is_refused_only_when_it_is_asked_is_explained_as_well(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was legal, the job has changed since."""
    real = PlacementClient.plan
    world = SteppedJob.demo()

    def plan(client: PlacementClient, processor_id: str, destination: str, **more: Any) -> Plan:
        made = real(client, processor_id, destination, **more)
        world.hosts["host-4"] = replace(world.hosts["host-4"], state="lost")
        return made

    monkeypatch.setattr(PlacementClient, "plan", plan)
    rows = refused(
        instance, "move_container", world, "reserve", processor="0", destination="host-4"
    )
    assert not rows["host-4"]["legal"]


def test_a_thousand_hosts_have_room_in_the_event(instance: dg.DagsterInstance) -> None:
    """As many as fit, and the number of the others."""
    world = SteppedJob(hosts={}, at={"0": "host-1", "0-0": "host-2"})
    names = [f"host-{n}.eu-central-1.compute.example.com" for n in range(1_000)]
    world.hosts = {name: HostView(name, "alive") for name in (*names, "host-1", "host-2")}
    for job in ("move_container", "spin_up_standby"):
        rows = refused(instance, job, world, processor="0", destination="host-2")
        assert len(rows) > 500
    world.hosts = {name: replace(host, state="lost") for name, host in world.hosts.items()}
    assert len(refused(instance, "relocate_standby", world, processor="0-0")) > 400
