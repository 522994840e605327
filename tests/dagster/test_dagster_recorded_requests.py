"""What each job asks for, under which uuid: a run that goes on finds its requests by these."""

from __future__ import annotations

from typing import Any

import pytest
from judged_run import commit_of
from placement_runs import Run

from samza_dagster.orchestration.requests.step_request import request_uuid
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.mark.parametrize(
    ("job", "config", "step", "asked"),
    [
        ("move_container", {"destination": "host-2"}, "move", ("hold", "0", "host-2")),
        ("restart_container", {}, "move", ("hold", "0", "LAST_SEEN")),
        ("move_with_standby", {}, "move", ("place", "0", "STANDBY")),
        ("fail_over", {}, "move", ("fail-over", "0", "STANDBY")),
        (
            "relocate_standby",
            {"processor": "0-0", "destination": "host-2"},
            "move",
            ("hold", "0-0", "host-2"),
        ),
        (
            "spin_up_standby",
            {"destination": "host-4", "steady_s": 0},
            "spin_up",
            ("start-standby", "0", "host-4"),
        ),
        (
            "drain_host",
            {"processor": None, "host": "host-1"},
            "drain_host/host-1/0/move",
            ("hold", "0", "host-2"),
        ),
    ],
)
def test_a_job_asks_under_the_uuid_of_its_step(
    world: SteppedJob,
    run: Run,
    job: str,
    config: dict[str, Any],
    step: str,
    asked: tuple[str, str, str],
) -> None:
    """One request each, and where it holds its destination one commit."""
    if job != "drain_host":  # of a container without state it asks for one move
        world.lag_now = {"0-1": [0]}
    given = {"processor": "0", **config}
    result = run(job, **{k: v for k, v in given.items() if v is not None})
    assert result.success
    uuid = request_uuid(result.run_id, step, 0)
    assert list(world.requests) == [uuid]
    assert (world.kinds[uuid], *world.asked[0]) == asked
    commit = {uuid: commit_of(result.run_id, step)} if asked[0] == "hold" else {}
    assert world.committed == commit
