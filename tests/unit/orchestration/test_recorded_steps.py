"""Names that a run in flight over an upgrade goes on by: its steps, its tags, and what these say."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration import chain
from samza_dagster.orchestration.moves import extra_standby, phases, spun_up
from samza_dagster.orchestration.operations import control as runs
from samza_dagster.orchestration.operations.steered import By, Steering, noted, steerings
from samza_dagster.orchestration.requests import asking, verify
from samza_dagster.orchestration.tags import job_tags, tags_from_run_config

pytestmark = pytest.mark.unit


def test_steps_and_tags_have_the_names_that_they_had_before() -> None:
    """They are looked for in what an older release has written."""
    steps = (phases.MOVE, phases.RELOCATE, phases.SPIN_UP, asking.COMMIT, asking.RELEASE)
    assert steps == ("move", "relocate_standby", "spin_up", "commit", "release")
    assert (extra_standby.REMOVE_STANDBY, extra_standby.GIVES_PLACE) == (
        "remove_standby",
        "gives_place",
    )
    assert (chain.ROOT, verify.SINCE) == ("samza/root", "samza/since")
    assert (spun_up.SPINS_UP, spun_up.SPUN_UP) == ("samza/spins-up", "samza/spin-up-requests")
    assert (runs.BOUNCE, runs.CONTROL, runs.PROGRESS, runs.ROOT) == (
        "samza/bounce",
        "samza/bounce-control",
        "samza/progress",
        "samza/bounce-root",
    )
    assert (runs.RESUMES, runs.HEARD) == ("samza/resumes", "heard")
    assert (runs.PLANNED, runs.RUNNING, runs.PAUSED) == ("planned", "running", "paused")
    assert [action.value for action in runs.BounceAction] == ["pause", "resume", "abort"]


@pytest.mark.parametrize(
    ("action", "config", "group"),
    [
        ("move_container", {"processor": "0"}, "demo/1/0"),
        ("relocate_standby", {"processor": "0-0"}, "demo/1/0"),
        ("move_container", {"processor": "1-1"}, "demo/1/1"),
        ("drain_host", {"host": "host-1"}, "demo/1/drain_host/host-1"),
        ("rolling_bounce", {}, "demo/1/rolling_bounce"),
        ("reconcile", {}, "demo/1/reconcile"),
    ],
)
def test_runs_of_one_group_are_tagged_as_before(
    action: str, config: dict[str, str], group: str
) -> None:
    """Another value, and one that was queued before an upgrade would run beside one of after it."""
    given = job_tags("demo/1", action)
    implied = tags_from_run_config({"ops": {"plan": {"config": config}}}, given)
    tags = {"samza/job": "demo/1", "samza/action": action, "samza/slot": "demo/1"}
    assert given | implied == {**tags, "samza/container-group": group}


def test_an_order_to_a_bounce_is_written_as_before() -> None:
    """A pause by an older release is known, and by whom."""
    tags = {
        "samza/bounce-steered": '[{"at_ms": 7, "action": "pause", "who": "ann", "why": "load",'
        ' "ticket": "T-1"}]'
    }
    assert noted({}, "pause", By("ann", "load", "T-1"), 7) == tags
    assert steerings(tags) == [Steering(7, "pause", "ann", "load", "T-1")]
