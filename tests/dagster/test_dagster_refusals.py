"""A refusal shows of each host the rule that decides, what was seen and the smallest change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster import serialize_value
from placement_runs import Run
from run_results import failure

from samza_dagster.client import PlacementClient
from samza_dagster.client.plan import Plan
from samza_dagster.client.views import HostView
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
Refused = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def refused(run: Run, instance: dg.DagsterInstance, world: SteppedJob) -> Refused:
    """Runs a job; returns the table of the step that failed, by host: `hosts_table` has a row for each."""

    def made(job: str, step: str = "", **config: Any) -> dict[str, dict[str, Any]]:
        result = run(job, **config)
        _, told = failure(result, step or f"plan_{job}")
        assert told["error"] == "Refused"
        for entry in instance.all_logs(result.run_id):
            assert len(serialize_value(entry)) < 300_000, entry.user_message[:80]
        assert world.requests == {}
        return {r.data["host"]: dict(r.data) for r in told["hosts_table"].records}

    return made


@pytest.mark.parametrize("job", ["move_container", "move_with_standby", "spin_up_standby"])
def test_a_destination_that_a_rule_forbids_is_explained_host_by_host(
    world: SteppedJob, refused: Refused, job: str
) -> None:
    """As `explain` does."""
    world.hosts["host-5"] = HostView("host-5", "lost")
    rows = refused(job, processor="0", destination="host-5")
    assert set(rows) == set(world.hosts)
    assert not rows["host-5"]["legal"]
    assert "agent" in rows["host-5"]["rule"]
    assert rows["host-2"]["legal"]
    of_group = rows["host-1" if job == "spin_up_standby" else "host-3"]
    assert "never on one host" in of_group["rule"]
    assert "0" in of_group["seen"]
    assert "first: samza-dagster place" in of_group["fix"]


def test_a_failover_without_a_standby_says_of_each_host_what_would_make_it_legal(
    world: SteppedJob, refused: Refused
) -> None:
    """A standby must be there: where one may be started, and where not."""
    del world.at["0-0"]
    rows = refused("fail_over", processor="0")
    assert set(rows) == set(world.hosts)
    assert not any(row["legal"] for row in rows.values())
    assert rows["host-4"]["fix"] == "spin_up_standby of 0 to host-4"
    assert "active 0 is on host-1" in rows["host-1"]["seen"]
    assert rows["host-1"]["fix"].startswith("move 0 first")


def test_a_drain_that_cant_be_says_where_each_container_may_go(
    world: SteppedJob, refused: Refused
) -> None:
    """Never to the host that is drained."""
    world.at = {"0": "host-1", "0-0": "host-2"}
    world.hosts = {name: HostView(name, "alive") for name in ("host-1", "host-2")}
    rows = refused("drain_host", host="host-1")
    assert set(rows) == {"host-2"}
    assert rows["host-2"]["container"] == "0"
    assert not rows["host-2"]["legal"]


def test_what_is_refused_only_when_it_is_asked_is_explained_as_well(
    world: SteppedJob, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was legal, the job has changed since."""
    real = PlacementClient.plan

    def plan(client: PlacementClient, processor_id: str, destination: str, **more: Any) -> Plan:
        made = real(client, processor_id, destination, **more)
        world.hosts["host-4"] = replace(world.hosts["host-4"], state="lost")
        return made

    monkeypatch.setattr(PlacementClient, "plan", plan)
    rows = refused("move_container", "reserve", processor="0", destination="host-4")
    assert not rows["host-4"]["legal"]


def test_a_thousand_hosts_have_room_in_the_event(world: SteppedJob, refused: Refused) -> None:
    """As many as fit, and the number of the others."""
    world.at = {"0": "host-1", "0-0": "host-2"}
    names = [f"host-{n}.eu-central-1.compute.example.com" for n in range(1_000)]
    world.hosts = {name: HostView(name, "alive") for name in (*names, "host-1", "host-2")}
    for job in ("move_container", "spin_up_standby"):
        rows = refused(job, processor="0", destination="host-2")
        assert len(rows) > 500
    world.hosts = {name: replace(host, state="lost") for name, host in world.hosts.items()}
    assert len(refused("relocate_standby", processor="0-0")) > 400
