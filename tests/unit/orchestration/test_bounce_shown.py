"""What an operation says of its end: who is back, who isn't and why, what it cost; and which units aren't begun."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from test_bounce_loop import plan_of

from samza_dagster.client.stop_budget import StopBudget
from samza_dagster.client.views import JobView
from samza_dagster.orchestration.drain import budget_notices, over_budget
from samza_dagster.orchestration.operations.schedule import (
    EndedStep,
    Progress,
    Result,
    RunEnd,
    UnitStatus,
)
from samza_dagster.orchestration.operations.shown import (
    SHOWN,
    failures_text,
    longest_downtime,
    outcomes_table,
    standby_cost,
    steps_table,
    summary,
    summary_metadata,
)
from samza_dagster.orchestration.operations.work import UnitWork
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitStep
from samza_dagster.orchestration.requests.follow import TO_FIRST_COMMIT
from tests.rig.bounce_world import BEGIN_MS, BounceWorld

pytestmark = pytest.mark.unit
WORLD = BounceWorld(at={str(n): f"host-{n}" for n in range(6)})
PLAN = plan_of(WORLD, at_once=4)


def back(processor: str, asked_s: int, seconds: int, down_s: float | None) -> Progress:
    return Progress(
        *(processor, f"host-{processor}", "active", UnitStatus.BACK),
        asked_ms=BEGIN_MS + 1_000 * asked_s,
        back_ms=BEGIN_MS + 1_000 * (asked_s + seconds),
        down_s=down_s,
        seconds=float(seconds),
        first_commit_s=None if down_s is None else down_s + 1,
        now_on=f"host-{processor}",
    )


ROWS = (
    back("0", 10, 30, 4.0),
    replace(back("1", 0, 20, 9.0), now_on="host-9", lag=7, attempt=1),
    back("2", 50, 10, None),
    Progress("3", "host-3", "active", UnitStatus.FAILED, asked_ms=BEGIN_MS, why="no place"),
    Progress("4", "host-4", "active", UnitStatus.IN_FLIGHT, uuid="u4", asked_ms=BEGIN_MS),
    Progress("5", "host-5", "active"),
)
STUCK = replace(ROWS[3], status=UnitStatus.STUCK, why="no end")
GONE = replace(ROWS[5], status=UnitStatus.GONE)


def test_a_summary_names_everybody_once_with_what_became_of_it() -> None:
    """And says how to go on where not all is done."""
    assert summary(PLAN, Result(RunEnd.STOPPED, "one failed", ROWS)).splitlines() == [
        "**stopped**: 3 of 6 bounced; one failed",
        "",
        "- bounced: 0, 1, 2",
        "- not bounced: 5",
        "- failed: 3: no place",
        "- in flight: 4: request u4; the coordinator goes on with it",
        "",
        "Re-execute this run to go on: containers that are back aren't touched again",
    ]
    done = summary(PLAN, Result(RunEnd.DONE, "all are back", (*ROWS[:3], GONE))).splitlines()
    assert done[2:] == [
        "- bounced: 0, 1, 2",
        "- not bounced: nobody",
        "- no longer in the job: 5",
    ]


def test_the_numbers_of_a_summary_are_of_who_is_back() -> None:
    """From the first that was asked until the last was back; downtimes of those that tell one."""
    result = Result(RunEnd.STOPPED, "one failed", (*ROWS, STUCK))
    told = summary_metadata(PLAN, result, PLAN.before)
    assert {
        name: value for name, value in told.items() if isinstance(value, int | float | str)
    } == {
        "bounced": 3,
        "failed": 2,
        "left": 1,
        "end": "stopped",
        f"move_longest_{TO_FIRST_COMMIT}": 10.0,
        "down_seconds_median": 6.5,
        "down_seconds_most": 9.0,
        "seconds": 60.0,
        "took": "60 s",
    }
    others = summary_metadata(PLAN, replace(result, rows=result.rows[::-1]), PLAN.before)
    assert {name: others[name] for name in told if name.startswith("down_")} == {
        name: value for name, value in told.items() if name.startswith("down_")
    }, "whatever order they are in"
    nobody = summary_metadata(PLAN, Result(RunEnd.STOPPED, "", ROWS[3:]), PLAN.before)
    assert not {"seconds", "took", "down_seconds_most"} & nobody.keys()
    assert longest_downtime(ROWS[3:]) == {}


def cells(*rows: Progress) -> list[dict[str, Any]]:
    return [dict(record.data) for record in outcomes_table(rows).records]


def test_an_outcome_tells_where_it_was_and_is_and_the_number_of_its_request() -> None:
    """Times in UTC, and nothing where nothing happened yet."""
    moved, waiting = cells(ROWS[1], ROWS[5])
    assert {name: moved[name] for name in ("outcome", "asked", "back_at", "host", "lag", "attempt")} == {
        "outcome": "back",
        "asked": "2023-11-14 22:13:20",
        "back_at": "2023-11-14 22:13:40",
        "host": "host-1 → host-9",
        "lag": 7,
        "attempt": 2,
    }  # fmt: skip
    assert (moved["down_seconds"], moved["seconds"]) == (9.0, 20.0)
    assert waiting["host"] == "host-5"
    assert not any(waiting[name] for name in ("asked", "back_at", "down_seconds", "why"))


def test_where_not_all_have_room_those_come_first_that_arent_as_they_should_be() -> None:
    """The rest keeps its order."""
    rows = [replace(ROWS[0], processor=f"b{n}") for n in range(SHOWN)]
    shown = [row["container"] for row in cells(*rows, ROWS[5], ROWS[3], ROWS[4])]
    assert shown[:3] == ["3", "4", "b0"]
    assert [row["container"] for row in cells(ROWS[5], ROWS[3])] == ["5", "3"]


def test_a_failure_says_what_failed_and_who_was_left() -> None:
    """Each with its reason; nothing of who is back or goes on."""
    assert failures_text((*ROWS, STUCK)) == ("3: no place; 3: no end; not begun or left waiting: 5")
    assert failures_text(ROWS[:3]) == ""
    assert failures_text(ROWS[:4]) == "3: no place"


def test_each_step_that_ended_is_told_with_its_own_time() -> None:
    """Of a wait that failed the outcome tells."""
    step = UnitStep("move", Kind.PLACE, "0", "host-1")
    work = UnitWork(cast("Any", None), PLAN.units[0])
    work.ended += [EndedStep(step, BEGIN_MS, BEGIN_MS + 2_500, "SUCCEEDED", "well", "u1")]
    work.ended += [EndedStep(step, BEGIN_MS, BEGIN_MS + 1), EndedStep(step, 0, 5, "warm")]
    first, second = (record.data for record in steps_table([work]).records)
    assert first == {
        "container": "0",
        "step": "move",
        "at": "2023-11-14 22:13:22",
        "seconds": 2.5,
        "what": "`0` → `host-1`",
        "status": "SUCCEEDED",
        "message": "well",
        "request": "u1",
    }
    assert (second["status"], second["request"]) == ("warm", None)


@pytest.mark.parametrize(
    ("memory_mb", "ends", "cost"),
    [
        (1_024, [10, 5], {"records_replayed_at_most": 15, "standby_memory": "1,024.0 MiB·h in 2 standbys"}),
        (None, [10, None], {}),
        (None, [], {}),
    ],
)  # fmt: skip
def test_standbys_for_moves_cost_their_memory_for_as_long_as_they_lived(
    memory_mb: int | None, ends: list[int | None], cost: dict[str, Any]
) -> None:
    """One that still lives isn't counted yet; where it isn't known what each replayed, nor is the sum."""
    lived = [
        replace(ROWS[n], standby_since_ms=BEGIN_MS, standby_until_ms=BEGIN_MS + 1_000 * seconds)
        for n, seconds in ((0, 600), (1, 3_000))
    ]
    rows = [*lived, replace(ROWS[2], standby_since_ms=BEGIN_MS), ROWS[3]]
    view = replace(WORLD.view(), container_memory_mb=memory_mb)
    told = standby_cost(rows, view, ends)
    instead = cast("str", told.pop("permanent_standbys_instead", ""))
    assert told == {"just_in_time_standbys": 2, "standby_seconds": 3_600.0, **cost}
    assert instead.startswith("2,048 MiB all the time, 49,152 MiB·h a day" if memory_mb else "")
    assert bool(instead) is bool(memory_mb)
    assert standby_cost(rows[2:], view, ends) == {"just_in_time_standbys": 0}


def stops(processor: str, *places: str) -> Unit:
    steps = [UnitStep(f"{n}", Kind.PLACE, placed, "h") for n, placed in enumerate(places)]
    wait = UnitStep("", Kind.WAIT_BACK, processor)
    return Unit(processor, "move", "", (*steps, wait), processor)


def counted(**budgets: int) -> JobView:
    """Of 8 that Samza's AM lets pass, so many are spent."""
    made = {p[1:]: StopBudget(p[1:], n, free_at_ms=BEGIN_MS) for p, n in budgets.items()}
    return replace(WORLD.view(), coordinator="samza", stop_budgets=made)


def test_the_stops_of_all_units_of_a_plan_add_up() -> None:
    """One that two units stop once each is stopped twice: each of them is refused, others aren't."""
    units = [stops("0", "0", "1"), stops("1", "1"), stops("2", "2")]
    view = counted(_0=0, _1=6, _2=6)
    refused = over_budget(view, units)
    assert [told.partition(":")[0] for told in refused] == ["0", "1"]
    assert refused[0].startswith("0: place 1: Samza's AM counts a stop as a failure")
    assert over_budget(counted(_1=5, _2=6), units) == []
    (first, second) = budget_notices(view, units)
    assert first.startswith("this would be stops 7 to 8 of 1 in a row")
    assert second.startswith("this would be stop 7 of 2 in a row")
    assert budget_notices(counted(), units) == ()
