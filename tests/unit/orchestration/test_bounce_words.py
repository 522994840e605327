"""What a bounce says of itself while it goes on: why nothing happens now, and until when."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration.operations.schedule import RunEnd
from samza_dagster.orchestration.text import clock
from tests.rig.bounce_world import BounceWorld
from tests.unit.orchestration.test_bounce_loop import NOT_STARTED, Book, plan_of, run

pytestmark = pytest.mark.unit


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


def test_those_that_are_not_begun_any_more_are_counted() -> None:
    """The budget is spent: it says so, and how many are left alone."""
    world, book = BounceWorld(), Book()
    world.ends = {"0-0": [NOT_STARTED]}
    assert run(world, book, plan_of(world)).end is RunEnd.STOPPED
    assert book.told[-1] == "0/4, 1 failed, 3 not begun; the budget of failures is spent: 0-0"
