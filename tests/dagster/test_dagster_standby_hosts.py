"""The component's `hosts`: each job that sends a standby somewhere keeps to them, or refuses."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from placement_runs import SteppedSamza, definitions_over
from run_results import failure

from samza_dagster.client.views import HostView
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
ALLOWED = ["host-3", "host-4"]


@pytest.fixture(autouse=True)
def _warm(world: SteppedJob) -> None:
    world.lag_now = {"0": [0], "0-1": [0], "0-0": [0]}


def bound(
    request: pytest.FixtureRequest, job: str, hosts: list[str] | None = None, **config: Any
) -> dg.ExecuteInProcessResult:
    """One of the jobs of a component with `hosts`."""
    made = definitions_over(request.node.name)
    samza = SteppedSamza(
        bootstrap_servers=request.node.name, job_name="demo", job_id="1", hosts=hosts or ALLOWED
    )
    resources = {**(made.resources or {}), "samza": samza}
    with dg.DagsterInstance.ephemeral() as instance:
        return (
            dg.Definitions(jobs=made.jobs, resources=resources)
            .get_job_def(job)
            .execute_in_process(
                run_config={"ops": {f"plan_{job}": {"config": config}}},
                instance=instance,
                raise_on_error=False,
            )
        )


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("job", "config", "standby"),
    [
        ("spin_up_standby", {"processor": "0", "steady_s": 0}, "0-1"),
        ("relocate_standby", {"processor": "0-0"}, "0-0"),
        ("relocate_standby", {"processor": "0-0", "destination": "ANY_HOST"}, "0-0"),
        ("move_container", {"processor": "0-0", "destination": "ANY_HOST"}, "0-0"),
        ("move_with_standby", {"processor": "0"}, "0-0"),
    ],
)
def test_where_any_host_would_do_one_of_them_is_named(
    world: SteppedJob,
    request: pytest.FixtureRequest,
    job: str,
    config: dict[str, Any],
    standby: str,
) -> None:
    """host-2 has most free memory and isn't one of them."""
    result = bound(request, job, **config)
    assert result.success
    assert (standby, "host-4") in [*world.asked, *world.at.items()]
    assert world.at[standby] == "host-4"


@pytest.mark.parametrize("job", ["move_container", "relocate_standby"])
def test_a_standby_that_may_not_go_there_goes_to_any_legal_host_where_that_is_said(
    world: SteppedJob, request: pytest.FixtureRequest, job: str
) -> None:
    """host-1 has its active."""
    refused = bound(request, job, ["host-1", "host-4"], processor="0-0", destination="host-1")
    assert not refused.success
    result = bound(
        request,
        job,
        ["host-1", "host-4"],
        processor="0-0",
        destination="host-1",
        or_any_legal=True,
    )
    assert result.success
    assert world.at["0-0"] == "host-4"


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("job", "config"),
    [
        ("spin_up_standby", {"processor": "0", "destination": "host-2"}),
        ("relocate_standby", {"processor": "0-0", "destination": "host-2"}),
        ("move_container", {"processor": "0-0", "destination": "host-2"}),
        ("move_via_new_standby", {"processor": "0", "destination": "host-2"}),
    ],
)
def test_another_host_is_refused_for_a_standby(
    world: SteppedJob, request: pytest.FixtureRequest, job: str, config: dict[str, Any]
) -> None:
    """With the rule, what was asked, and the hosts that would do."""
    text, metadata = failure(bound(request, job, **config), f"plan_{job}")
    assert "one of the component's hosts" in text
    assert metadata["seen"] == "host-2"
    assert metadata["fix"] == "one of host-3, host-4"
    assert world.requests == {}


def test_a_move_that_leaves_the_standby_s_host_to_the_coordinator_is_refused(
    world: SteppedJob, request: pytest.FixtureRequest
) -> None:
    """move_with_standby names it; where every host is allowed there is nothing to refuse."""
    ask = {"processor": "0", "destination": "STANDBY"}
    text, metadata = failure(bound(request, "move_container", **ask), "plan_move_container")
    assert "goes to one of the component's hosts" in text
    assert metadata["fix"].startswith("move_with_standby")
    assert world.requests == {}
    assert bound(request, "move_container", list(world.hosts), **ask).success


def test_a_drain_with_destinations_keeps_standbys_to_the_component_s_hosts(
    world: SteppedJob, request: pytest.FixtureRequest
) -> None:
    """An active may go to any of them, a standby to the one that the component has too."""
    world.hosts["host-5"] = HostView("host-5", "alive", free_memory_mb=900)
    world.at = {"0": "host-1", "1-0": "host-1", "1": "host-2", "0-0": "host-3"}
    ask: dict[str, Any] = {"host": "host-1", "destinations": ["host-4", "host-5"], "cold": True}
    assert bound(request, "drain_host", verify_timeout_s=0, **ask).success
    assert (world.at["0"], world.at["1-0"]) == ("host-5", "host-4")
    world.at["1-0"] = "host-1"
    text, _ = failure(
        bound(request, "drain_host", **{**ask, "destinations": ["host-5"]}), "plan_drain_host"
    )
    assert "host-5 isn't among the component's hosts, the only ones for standbys" in text
