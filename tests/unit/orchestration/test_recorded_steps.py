"""Names that a run in flight over an upgrade goes on by: its tags, and what these say."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration import chain
from samza_dagster.orchestration.operations import runs
from samza_dagster.orchestration.requests import verify
from samza_dagster.orchestration.tags import job_tags, tags_from_run_config

pytestmark = pytest.mark.unit


def test_tags_have_the_names_that_they_had_before() -> None:
    """A run that goes on looks for them in what an earlier one wrote; for its steps by their uuids."""
    assert (chain.MEMORY, verify.SINCE) == ("samza/chain", "since")
    assert (runs.BOUNCE, runs.PROGRESS) == ("samza/bounce", "samza/progress")
    assert (runs.PLANNED, runs.RUNNING) == ("planned", "running")


@pytest.mark.parametrize(
    ("action", "config", "group"),
    [
        ("move_container", {"processor": "0"}, "demo/1/0"),
        ("relocate_standby", {"processor": "0-0"}, "demo/1/0"),
        ("move_container", {"processor": "1-1"}, "demo/1/1"),
        ("drain_host", {"host": "host-1"}, "demo/1/drain_host/host-1"),
        ("rolling_bounce", {}, "demo/1/rolling_bounce"),
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
