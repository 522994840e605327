"""What could be known to fail is refused by the plan, before the first request is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from placement_runs import WORLDS, placement_job

from samza_dagster.errors import Unreachable
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster

MOVE = {"processor": "0", "destination": "host-2"}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One of each test's own."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def refused(
    instance: dg.DagsterInstance, job: str, world: SteppedJob, **config: Any
) -> dict[str, str]:
    """What the plan says that it refuses with; nothing was asked."""
    WORLDS["reexecuted"] = world
    result = placement_job(job).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": config}}},
        instance=instance,
        raise_on_error=False,
    )
    data = result.failure_data_for_node(f"plan_{job}")
    assert data is not None
    assert data.user_failure_data is not None
    assert world.requests == {}
    return {key: str(value.value) for key, value in data.user_failure_data.metadata.items()}


STOPS_AN_ACTIVE = [
    ("move_container", MOVE),
    ("restart_container", {"processor": "0"}),
    ("move_with_standby", {"processor": "0"}),
    ("move_via_new_standby", {"processor": "0", "destination": "host-4"}),
    ("drain_host", {"host": "host-1", "cold": True}),
]


@pytest.mark.parametrize(("job", "config"), STOPS_AN_ACTIVE)
def test_a_checkpoint_topic_that_cant_be_read_is_told_before_an_active_is_stopped(
    instance: dg.DagsterInstance, job: str, config: dict[str, Any]
) -> None:
    """Afterwards nobody could tell whether it works again."""
    world = SteppedJob.demo()
    lost = Unreachable("read topic c", seen="no right to read topic c", fix="ALLOW READ on c")
    world.breaks = {"commits": lost}
    told = refused(instance, job, world, **config)
    assert told["seen"] == "no right to read topic c"
    assert told["fix"].startswith("ALLOW READ on c; or verify_timeout_s 0")


def test_a_failover_doesnt_wait_for_that(instance: dg.DagsterInstance) -> None:
    """It is asked when the active is unwell."""
    world = WORLDS["reexecuted"] = SteppedJob.demo()
    world.breaks = {"commits": Unreachable("read topic c", seen="no right", fix="a right")}
    placement_job("fail_over").execute_in_process(
        run_config={"ops": {"plan_fail_over": {"config": {"processor": "0"}}}},
        instance=instance,
        raise_on_error=False,
    )
    assert list(world.kinds.values()) == ["fail-over"]


@pytest.mark.parametrize("job", ["spin_up_standby", "move_via_new_standby"])
def test_a_standby_whose_lag_nobody_will_ever_tell_isnt_started(
    instance: dg.DagsterInstance, job: str
) -> None:
    """It would be waited for until the time is up."""
    world = SteppedJob.demo()
    world.report_every_s = None
    told = refused(instance, job, world, processor="0", destination="host-4")
    assert "no metrics reporter" in told["seen"]
    assert "metrics.reporters" in told["fix"]
    assert "control-standby start" in told["fix"]


@pytest.mark.parametrize("names", [{"exclude": ["hots-2"]}, {"destinations": ["host-2", "hots-2"]}])
def test_a_host_that_a_drain_doesnt_know_is_refused(
    instance: dg.DagsterInstance, names: dict[str, list[str]]
) -> None:
    """A mistyped `exclude` barred nothing: containers went where they shouldn't."""
    told = refused(instance, "drain_host", SteppedJob.demo(), host="host-1", cold=True, **names)
    assert told["seen"] == "hots-2; there are host-1, host-2, host-3, host-4"
