"""What could be known to fail is refused by the plan, before the first request is written."""

from __future__ import annotations

from typing import Any

import pytest
from placement_runs import Run
from run_results import failure

from samza_dagster.errors import Unreachable
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster

MOVE = {"processor": "0", "destination": "host-2"}


def refused(run: Run, world: SteppedJob, job: str, **config: Any) -> dict[str, Any]:
    """What the plan says that it refuses with; nothing was asked."""
    _, told = failure(run(job, **config), f"plan_{job}")
    assert world.requests == {}
    return told


STOPS_AN_ACTIVE = [
    ("move_container", MOVE),
    ("restart_container", {"processor": "0"}),
    ("move_with_standby", {"processor": "0"}),
    ("move_via_new_standby", {"processor": "0", "destination": "host-4"}),
    ("drain_host", {"host": "host-1", "cold": True}),
]


@pytest.mark.parametrize(("job", "config"), STOPS_AN_ACTIVE)
def test_a_checkpoint_topic_that_cant_be_read_is_told_before_an_active_is_stopped(
    world: SteppedJob, run: Run, job: str, config: dict[str, Any]
) -> None:
    """Afterwards nobody could tell whether it works again."""
    lost = Unreachable("read topic c", seen="no right to read topic c", fix="ALLOW READ on c")
    world.breaks = {"commits": lost}
    told = refused(run, world, job, **config)
    assert told["seen"] == "no right to read topic c"
    assert told["fix"].startswith("ALLOW READ on c; or verify_timeout_s 0")


def test_a_failover_doesnt_wait_for_that(world: SteppedJob, run: Run) -> None:
    """It is asked when the active is unwell."""
    world.breaks = {"commits": Unreachable("read topic c", seen="no right", fix="a right")}
    run("fail_over", processor="0")
    assert list(world.kinds.values()) == ["fail-over"]


@pytest.mark.parametrize("job", ["spin_up_standby", "move_via_new_standby"])
def test_a_standby_whose_lag_nobody_will_ever_tell_isnt_started(
    world: SteppedJob, run: Run, job: str
) -> None:
    """It would be waited for until the time is up."""
    world.report_every_s = None
    told = refused(run, world, job, processor="0", destination="host-4")
    assert "no metrics reporter" in told["seen"]
    assert "metrics.reporters" in told["fix"]
    assert "control-standby start" in told["fix"]


@pytest.mark.parametrize("names", [{"exclude": ["hots-2"]}, {"destinations": ["host-2", "hots-2"]}])
def test_a_host_that_a_drain_doesnt_know_is_refused(
    world: SteppedJob, run: Run, names: dict[str, list[str]]
) -> None:
    """A mistyped `exclude` barred nothing: containers went where they shouldn't."""
    told = refused(run, world, "drain_host", host="host-1", cold=True, **names)
    assert told["seen"] == "hots-2; there are host-1, host-2, host-3, host-4"
