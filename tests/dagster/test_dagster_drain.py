"""Job `drain_host`: a host is emptied, each active by way of a warm standby."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from drains import HOSTS, drain, on
from placement_runs import Run
from run_results import failure, output_metadata

from samza_dagster.client.views import HostView
from samza_dagster.model.naming import group_of
from tests.rig.stepped_job import SteppedJob

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("full_host")]


def test_each_container_leaves_as_suits_it(world: SteppedJob, run: Run) -> None:
    """Standby, warm active, stateless active, then the one that needs a standby for it."""
    result = drain(run)
    assert result.success
    assert result.output_for_node("drain") == 4
    asked = [(kind, p) for kind, (p, _) in zip(world.kinds.values(), world.asked, strict=True)]
    assert asked == [
        ("hold", "3-0"),
        *(("hold", "0-0"), ("hold", "0")),
        ("hold", "2"),
        *(("start-standby", "1"), ("stop-standby", "1-1"), ("hold", "1")),
    ]
    assert on(world) == []
    assert world.at["0"] == "host-2"
    assert "1-1" not in world.at
    for group in "0123":
        members = [h for p, h in world.at.items() if group_of(p) == group]
        assert len(members) == len(set(members))


def test_each_container_s_steps_are_drawn_over_time_and_what_it_cost_is_told(
    world: SteppedJob, run: Run
) -> None:
    """A step has when it ended and how long it took. The cost is memory times time, against permanent
    standbys, and the seconds that actives were down."""
    shown = output_metadata(drain(run), "drain")
    for name in ("progress", "timeline"):
        assert shown[name].startswith(f"![{name}](data:image/svg+xml")
    rows = [row.data for row in shown["steps"].records]
    assert all(row["at"] and row["seconds"] >= 0 for row in rows)
    drawn = base64.b64decode(shown["progress"].partition("base64,")[2][:-1]).decode()
    assert "4 of 4 back" in drawn
    timeline = base64.b64decode(shown["timeline"].partition("base64,")[2][:-1]).decode()
    assert "SUCCEEDED" in timeline
    assert shown["just_in_time_standbys"] == 1
    assert "MiB·h in 1 standbys" in shown["standby_memory"]
    assert "300 MiB all the time" in shown["permanent_standbys_instead"]
    assert shown["move_longest_stop_to_first_commit_seconds"] > 0
    assert {r.data["outcome"] for r in shown["outcomes"].records} == {"back"}


def test_a_dry_run_tells_everything_and_asks_nothing(world: SteppedJob, run: Run) -> None:
    """Each container, how it leaves, why, and where to."""
    result = drain(run, dry_run=True)
    text = result.output_for_node("plan_drain_host", "preview")
    for part in ("standby 0-0 is warm: 5 records", "1-0 90,000 records behind: one is spun up"):
        assert part in text
    assert "no state to restore" in text
    assert "downtime" in text
    assert world.requests == {}


@pytest.mark.parametrize(
    ("change", "seen", "fix"),
    [
        ({"host": "host-9"}, "hosts host-1, host-2", "one of these names"),
        ({"destinations": ["host-2", "host-3"]}, "3-0 (relocate)", "room for"),
        ({"exclude": list(HOSTS[1:])}, "isn't among the hosts to go to", "no container of group"),
    ],
)
def test_what_cannot_end_well_is_refused_before_anything_is_asked(
    world: SteppedJob, run: Run, change: dict[str, Any], seen: str, fix: str
) -> None:
    """An unknown host; containers that would have no legal host, and what is missing."""
    if "destinations" in change:
        world.at["3"] = "host-2"
        world.hosts["host-3"] = HostView("host-3", "alive", free_memory_mb=299)
    result = drain(run, **change)
    text, metadata = failure(result, "plan_drain_host")
    assert seen in text
    assert fix in metadata["fix"]
    assert world.requests == {}


def test_a_lost_host_is_told_as_such(world: SteppedJob, run: Run) -> None:
    """There is nothing to drain: what was on it is being started elsewhere."""
    world.hosts["host-1"] = HostView("host-1", "lost")
    text, metadata = failure(drain(run), "plan_drain_host")
    assert "host-1 is lost; 0 is running" in text
    assert "elsewhere by itself" in metadata["fix"]
    assert world.requests == {}


def test_an_empty_host_is_drained(world: SteppedJob, run: Run) -> None:
    """Nothing to ask; the run says so and succeeds."""
    result = drain(run, host="host-6")
    assert result.output_for_node("drain") == 0
    assert world.requests == {}


def test_under_samza_s_am_a_cold_active_is_refused_before_anything_is_asked(
    world: SteppedJob, run: Run
) -> None:
    """Its wire has no standby on request: the refusal names what is possible."""
    world.coordinator = "samza"
    text, metadata = failure(drain(run), "plan_drain_host")
    assert "Samza's AM has no standby on request" in text
    assert "cold: true" in metadata["fix"]
    assert world.requests == {}


def test_a_drain_asks_nothing_where_samza_s_am_may_end_the_job_for_any_of_its_steps(
    world: SteppedJob, run: Run
) -> None:
    """Not for the first of them alone; a dry run notices what is left."""
    world.coordinator = "samza"
    first = drain(run, cold=True, dry_run=True)
    assert "in a row" not in output_metadata(first, "plan_drain_host")["what"]
    world.restarted_by_others("2", [world.now_ms - 10_000 * n for n in range(7, 0, -1)])
    text, _ = failure(drain(run, cold=True), "plan_drain_host")
    assert "2: place 2" in text
    assert "this would be stop 8 of 2 in a row" in text
    assert world.requests == {}
    for uuid in list(world.answers)[:-4]:
        world.forget(uuid)
    dry = drain(run, cold=True, dry_run=True)
    assert "stop 5 of 2 in a row" in output_metadata(dry, "plan_drain_host")["what"]


def test_a_drain_waits_for_a_standby_that_is_far_behind_at_first(
    world: SteppedJob, run: Run
) -> None:
    """Everything else is done meanwhile; then the last one moves."""
    world.lags = [{**world.lag_now, "1-1": [50_000]}] * 9
    assert drain(run, at_once=4).success
    assert world.lags == []
    assert on(world) == []
    assert world.asked[-1] == ("1", world.at["1"])
    assert len(world.requests) == 7
