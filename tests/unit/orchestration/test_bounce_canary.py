"""The canary of a bounce, and whoever was back and dies: what is watched after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from test_bounce_loop import NOT_STARTED, Book, downs, many, plan_of, run

from samza_dagster.orchestration.operations.schedule import Progress, RunEnd, UnitStatus
from samza_dagster.orchestration.operations.watching import CanaryWatch
from samza_dagster.placement.state import PlacementAsk
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("why", ["slow", "failed"])
def test_a_canary_that_does_not_come_back_ends_it(why: str) -> None:
    """It doesn't process, or it fails: nobody else is touched."""
    world, book = BounceWorld(), Book()
    if why == "failed":
        world.ends = {"0": [NOT_STARTED]}
    else:
        world.slow.add("0")
    plan = plan_of(world, only=["0", "1"], canaries=1, stop_after_failures=9)
    result = run(world, book, plan)
    assert result.end is RunEnd.STOPPED
    assert "the canary failed: 0" in result.because
    assert world.order() == ["0"]
    (failed,) = result.are(UnitStatus.FAILED)
    assert {"slow": "no input offset grew", "failed": "FAILED"}[why] in failed.why


def test_the_others_wait_until_the_canary_was_watched_and_judged() -> None:
    """Without a check: it still runs, has committed since, and its lag is small."""
    world, book = BounceWorld(), Book()
    result = run(world, book, plan_of(world, only=["0", "1"], canaries=1, bake_s=60))
    assert result.end is RunEnd.DONE
    first, second = result.rows
    assert first.back_ms is not None
    assert second.asked_ms is not None
    assert second.asked_ms >= first.back_ms + 60_000
    assert any("the canary runs, processes" in line for line in book.lines)


@pytest.mark.parametrize(
    ("check", "end", "because"),
    [
        (True, RunEnd.DONE, "all are back"),
        (False, RunEnd.STOPPED, ": check c of a/b failed"),
        (None, RunEnd.STOPPED, ": no result of check c of a/b since the bake within 100 s"),
    ],
)
def test_an_asset_check_judges_by_a_result_since_the_bake(
    check: bool | None, end: RunEnd, because: str
) -> None:
    """None in time is a no; the end says why."""
    world, book = BounceWorld(), Book(check=check)
    judge = {"judge_asset": "a/b", "judge_check": "c", "judge_timeout_s": 100}
    result = run(world, book, plan_of(world, canaries=1, bake_s=30, **judge))
    assert result.end is end
    assert because in result.because
    assert len(world.order()) == (4 if check else 1)
    back = book.back()["0-0"].back_ms
    assert back is not None
    assert book.asked_check > 1
    others = [r.asked_ms for r in world.requests.values() if r.processor != "0-0"]
    assert all(at >= back + 30_000 for at in others)


def test_the_end_of_the_bake_is_told() -> None:
    """The time is in the progress for as long as the canary bakes."""
    world, book = BounceWorld(), Book()
    result = run(world, book, plan_of(world, canaries=1, bake_s=3_600))
    assert result.end is RunEnd.DONE
    assert "1/4; the canary is watched until 2023-11-14 23:13:28 UTC" in book.told


def test_a_canary_that_dies_in_its_bake_is_a_no() -> None:
    """It runs again, but not as the one that was seen back."""
    world, book = BounceWorld(), Book()

    def die(world: BounceWorld) -> None:
        if book.back() and len(world.started_ms["0"]) == 1:
            world.started_ms["0"].append(world.now_ms)

    world.on_sleep = die
    result = run(world, book, plan_of(world, only=["0", "1"], canaries=1, bake_s=60))
    assert result.end is RunEnd.STOPPED
    assert "the canary failed: 0" in result.because
    assert "died since: 0 runs as 0#2, no longer as 0#1" in result.are(UnitStatus.FAILED)[0].why
    assert world.order() == ["0"]


def crash(processor: str, book: Book, after_ms: int, for_ms: int) -> Callable[[BounceWorld], None]:
    """What takes one down, so long after it was seen back."""

    def pass_time(world: BounceWorld) -> None:
        back = book.back().get(processor)
        if back is None or back.back_ms is None:
            return
        since = world.now_ms - back.back_ms - after_ms
        world.crashed = {processor} if 0 <= since < for_ms else set()

    return pass_time


def test_a_canary_that_crashes_minutes_after_its_bake_ends_it() -> None:
    """Its judge said yes: a release may crash when it has run for a while."""
    world, book = BounceWorld(at=many(20, 5)), Book()
    plan = plan_of(world, canaries=1, bake_s=60, stop_after_failures=9)
    canary = plan.processors[0]
    world.on_sleep = crash(canary, book, 120_000, 10**9)
    result = run(world, book, plan)
    assert any("the canary runs" in line for line in book.lines)
    assert result.end is RunEnd.STOPPED
    assert f"the canary failed: {canary}" in result.because
    (failed,) = result.are(UnitStatus.FAILED)
    assert failed.why == f"it was back and died since: {canary} is starting"
    assert failed.back_ms is not None
    crashed_ms = failed.back_ms + 120_000
    assert all(r.asked_ms is None or r.asked_ms < crashed_ms + 2_000 for r in result.rows)


def test_who_was_back_and_dies_keeps_its_place_until_it_runs() -> None:
    """With one place nobody else is down meanwhile; it counts as a failure."""
    world, book = BounceWorld(at=many(6, 3)), Book()
    down = downs(world, crash("0-0", book, 20_000, 90_000))
    result = run(world, book, plan_of(world, stop_after_failures=3))
    assert max(down) <= 2  # the one that was in flight when it died
    assert [r.processor for r in result.are(UnitStatus.FAILED)] == ["0-0"]
    assert [r.processor for r in result.are(UnitStatus.WAITING)] == ["0"]
    assert any(
        "0-0 is starting: a container that failed or died keeps its place" in line
        for line in book.lines
    )
    assert book.told[-1].startswith("10/12, 1 failed")


def test_a_release_that_crashes_some_time_after_its_start_is_stopped_by_the_budget() -> None:
    """Each is back for 30 s and then down for good: no more than one is asked after the first died."""
    world, book = BounceWorld(at=many(6, 3)), Book()

    def hurt(world: BounceWorld) -> None:
        back = {p: r.back_ms or 0 for p, r in book.back().items()}
        world.crashed = {p for p, at in back.items() if world.now_ms >= at + 30_000}

    world.on_sleep = hurt
    plan = plan_of(world)
    result = run(world, book, plan)
    assert result.end is RunEnd.STOPPED
    died = plan.processors[0]
    assert f"the budget of failures is spent: {died}" in result.because
    first = book.back()[died].back_ms
    assert first is not None
    assert all(r.asked_ms is None or r.asked_ms <= first + 32_000 for r in result.rows)


def test_a_bounce_is_not_done_before_a_death_is_settled() -> None:
    """One dies seconds before the last one is back."""
    world, book = BounceWorld(), Book()
    world.on_sleep = crash("0-0", book, 7_000, 10**9)
    result = run(world, book, plan_of(world, only=["0", "0-0"]))
    assert [r.processor for r in result.are(UnitStatus.BACK)] == ["0"]
    assert result.end is RunEnd.STOPPED
    assert "the budget of failures is spent: 0-0" in result.because
    assert any("whether somebody has asked for that" in line for line in book.lines)


@pytest.mark.parametrize("canaries", [0, 1])
def test_who_is_restarted_by_somebody_else_after_it_was_back_has_not_failed(canaries: int) -> None:
    """A planned move: seen in flight, or by its answer alone."""
    world, book = BounceWorld(at=many(3, 3)), Book()
    hurt = crash("0-0", book, 5_000, 4_000)

    def move(world: BounceWorld) -> None:
        before = world.crashed
        hurt(world)
        action = PlacementAsk("x", "run-1", "0-0", "host-9", 0)
        world.others = (action,) if world.crashed else ()
        if before and not world.crashed:
            world.started_ms["0-0"].append(world.now_ms)
            world.at["0-0"] = "host-9"
            world.restarted_by_others("0-0", [world.now_ms])

    world.on_sleep = move
    plan = plan_of(world, canaries=canaries, bake_s=30)
    result = run(world, book, plan)
    assert result.end is RunEnd.DONE
    row = next(r for r in result.rows if r.processor == "0-0")
    assert (row.status, row.execution, row.now_on) == (UnitStatus.BACK, "0-0#2", "host-9")
    assert any("somebody else has asked for that" in line for line in book.lines)


@pytest.mark.parametrize(
    ("trouble", "config", "passed", "why"),
    [
        ({}, {}, True, "the canary runs, processes and has its lag back"),
        ({"far": {"0-0"}}, {}, None, "0-0 is 1000 records behind"),
        ({"far": {"0-0"}}, {"lag_limit": 1_000}, True, ""),
        ({"far": {"0-0"}}, {"lag_timeout_s": 0}, True, ""),
        ({"mute": {"0-0"}}, {}, None, "how far 0-0 is behind isn't known"),
        ({"slow": {"0"}}, {}, None, "0 hasn't committed progress since it was back"),
        ({"crashed": {"0"}}, {}, None, "0 is starting"),
        # an active that processes has restored its stores, whoever tells its lag
        ({"mute": {"0"}}, {}, True, ""),
        ({"mute": {"0"}}, {"verify_timeout_s": 0}, None, "how far 0 is behind isn't known"),
        ({"slow": {"0"}}, {"verify_timeout_s": 0, "lag_timeout_s": 0}, True, ""),
        # the others aren't judged
        ({"slow": {"1"}, "far": {"1-0"}, "mute": {"1"}, "crashed": {"1-0"}}, {}, True, ""),
    ],
)
def test_a_canary_without_a_check_is_judged_by_what_can_be_seen_of_it(
    trouble: dict[str, set[str]], config: dict[str, object], passed: bool | None, why: str
) -> None:
    """It may take its time, at most as long as a restart of it may; then it is a no, and why."""
    world = BounceWorld()
    plan = plan_of(
        world, **{"only": ["0", "0-0", "1"], "canaries": 2, "lag_timeout_s": 90, **config}
    )
    for name, processors in trouble.items():
        getattr(world, name).update(processors)
    rows = {
        p: Progress(p, "h", "standby" if "-" in p else "active", UnitStatus.BACK, back_ms=1, execution=f"{p}#0")
        for p in plan.processors
    }  # fmt: skip
    rows["1"] = replace(rows["1"], back_ms=None, status=UnitStatus.WAITING)
    watch = CanaryWatch(world.client(), plan, lambda: None)
    began_ms = world.now_ms
    watch.judge(world.view(), rows, began_ms)
    view, asked = world.view(), world.calls.count
    assert watch.judge(view, rows, began_ms + 999).passed is None
    assert world.calls.count == asked, "a look a second"
    world.now_ms += 60_000
    verdict = watch.judge(world.view(), rows, world.now_ms)
    assert (verdict.passed, watch.passed) == (passed, passed)
    assert why in verdict.why
    if passed is None:
        world.now_ms = began_ms + 90_001
        late = watch.judge(world.view(), rows, world.now_ms)
        assert late.passed is False
        assert late.why == f"{verdict.why} within 90 s of the bake"


def test_a_canary_that_left_the_job_is_a_no() -> None:
    """Nobody knows whether the release would have run there."""
    world = BounceWorld()
    plan = plan_of(world, only=["0", "1"], canaries=1)
    rows = {p: Progress(p, "h", "active", UnitStatus.BACK, back_ms=1) for p in plan.processors}
    del world.at["0"]
    verdict = CanaryWatch(world.client(), plan, lambda: None).judge(world.view(), rows, 0)
    assert (verdict.passed, verdict.why) == (False, "0 is gone")
