"""What a bounce says of itself while it goes on: why nothing happens now, until when, and how long it takes yet."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from samza_dagster.orchestration.operations.loop import RunEnd
from samza_dagster.orchestration.plans.bounce import ACTIVE, STANDBY, Measured, expected_s
from samza_dagster.orchestration.text import clock
from tests.rig.bounce_world import BEGIN_MS, BounceWorld
from tests.unit.orchestration.test_bounce_loop import NOT_STARTED, Book, many, plan_of, run

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("report_every_ms", [0, 60_000])
@pytest.mark.parametrize("at_once", [1, 2])
def test_the_time_that_a_bounce_expects_is_the_time_that_it_takes(
    at_once: int, report_every_ms: int
) -> None:
    """By what an earlier bounce took, with the bake in it, and with standbys that tell their lag a minute late."""

    def world() -> BounceWorld:
        return BounceWorld(at=many(6, 6), report_every_ms=report_every_ms, lag_ms=0)

    former = run(world(), Book(), plan_of(world())).rows
    of = {mode: [row for row in former if row.mode == mode] for mode in (ACTIVE, STANDBY)}
    measured = Measured(
        {mode: mean(row.seconds or 0 for row in rows) for mode, rows in of.items()},
        {mode: mean(row.place_s or 0 for row in rows) for mode, rows in of.items()},
    )
    job, book = world(), Book()
    plan = replace(plan_of(job, at_once=at_once, canaries=1, bake_s=30), measured=measured)
    assert run(job, book, plan).end is RunEnd.DONE
    modes = {p: plan.mode_of(p) for p in plan.processors}
    took_s = expected_s(
        modes, plan.schedule, measured, canaries_left=1, bake_s=30, group_of=plan.group_of
    )
    assert took_s == pytest.approx((job.now_ms - BEGIN_MS) / 1000, rel=0.2)


def test_the_time_left_is_a_least_time_while_no_active_is_measured() -> None:
    """A standby takes less than an active, which must process as well."""
    book = Book()
    run(BounceWorld(), book, plan_of(BounceWorld()))
    told = [text for text in book.told if "left" in text]
    assert [text for text in told if text.startswith("2/4, at least")]
    assert [text for text in told if text.startswith("3/4, about")]
    assert not [text for text in told if text.startswith("2/4, about")]


def test_who_takes_long_is_named_with_what_it_waits_for_and_when_that_is_too_long() -> None:
    """A standby reports its lag a minute after its start; nothing else happens meanwhile."""
    world = BounceWorld(report_every_ms=60_000, at={"0": "h1", "0-0": "h2"})
    book = Book()
    assert run(world, book, plan_of(world, lag_timeout_s=600)).end is RunEnd.DONE
    slow = [text for text in book.told if "0-0 for 30 s" in text]
    (start,) = world.started_ms["0-0"]
    assert slow
    assert all("its lag isn't reported yet, given up at 2023-11-14 22:2" in text for text in slow)
    assert clock(start + 600_000)[:-1] in slow[0]
    assert not any("for 30 s" in text for text in book.told if text.startswith("1/2"))


def test_a_stage_is_told_in_words_that_fit_a_standby_too() -> None:
    """Samza's texts call each container an active one."""
    world, book = BounceWorld(), Book()
    run(world, book, plan_of(world, only=["0-0"]))
    assert "0-0 on host-3: in flight: it is being stopped" in book.lines
    assert not any("Active container" in line for line in book.lines)


def test_the_heartbeat_says_nothing_twice() -> None:
    """Why nobody is asked is in it once, until when as well."""
    world, book = BounceWorld(), Book()
    run(world, book, plan_of(world, canaries=1, bake_s=90))
    baking = [line for line in book.lines if line.startswith("baking: 1/4")]
    assert baking
    assert all(line.count("the canary is watched") == 1 for line in baking)


def test_no_time_is_promised_for_those_that_are_not_begun_any_more() -> None:
    """The budget is spent: it says so, and how many are left alone."""
    world, book = BounceWorld(), Book()
    world.ends = {"0-0": [NOT_STARTED]}
    assert run(world, book, plan_of(world)).end is RunEnd.STOPPED
    assert book.told[-1] == "0/4, 1 failed, 3 not begun; the budget of failures is spent: 0-0"
