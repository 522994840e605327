"""A bounce in virtual time: what it asks, when it goes on, how it ends, killed or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import ActionView, CoordinatorKind
from samza_dagster.errors import Unreachable
from samza_dagster.model import StatusCode
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.bounce.config import BounceUnit, RollingBounceConfig
from samza_dagster.orchestration.bounce.loop import Bounce
from samza_dagster.orchestration.bounce.order import Stand
from samza_dagster.orchestration.bounce.plan import BouncePlan, make_plan
from samza_dagster.orchestration.bounce.row import Bounced, End, Result
from samza_dagster.orchestration.own_commits import OwnCommits
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.placement import texts
from tests.rig.bounce_world import BEGIN_MS, BounceClient, BounceWorld, Killed, earlier_restart

pytestmark = pytest.mark.unit
NOT_STARTED = (StatusCode.FAILED, texts.start_failed("a", "b"))
BOTH = pytest.mark.parametrize("coordinator", ["samza_dagster", "samza"])


@dataclass
class Book:
    """A ledger that outlives its worker, as Dagster's does."""

    rows: list[Bounced] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    order: str = ""
    check: bool | None = None
    asked_check: int = 0
    tags: list[str | None] = field(default_factory=list)

    def log(self, text: str) -> None:
        self.lines.append(text)

    def finished(self, row: Bounced, rows: Mapping[str, Bounced], done: int) -> None:
        self.rows.append(row)

    def progress(self, text: str) -> None:
        self.told.append(text)

    def control(self) -> str:
        return self.order

    def check_passed(self) -> bool | None:
        self.asked_check += 1
        return self.check if self.asked_check > 1 else None

    def back(self) -> dict[str, Bounced]:
        return {r.processor: r for r in self.rows if r.stand is Stand.BACK}


@cache
def policies() -> PlacementPolicies:
    return PlacementPolicies(verify_timeout_s=60, lag_limit=100, timeout_s=300)


def plan_of(world: BounceWorld, **config: object) -> BouncePlan:
    made = RollingBounceConfig(**{"canaries": 0, **config})  # pyright: ignore[reportArgumentType]
    return make_plan(world.view(), made, policies())


def run(world: BounceWorld, book: Book, plan: BouncePlan, *, root: str = "root") -> Result:
    holds: dict[str, str] = {}
    made = Bounce(
        BounceClient(world),
        plan,
        root,
        book,
        holds,
        known=book.back(),
        commits=OwnCommits(lambda: book.tags, book.tags.append),
        sleep=world.sleep,
        now_ms=world.clock,
    )
    result = made.run()
    assert holds == {}
    return result


def most_at_once(rows: list[Bounced]) -> int:
    """Of those that were down or not yet back."""
    spans = [(r.asked_ms, r.back_ms) for r in rows if r.asked_ms and r.back_ms]
    return max(sum(a <= at < b for a, b in spans) for at, _ in spans)


def many(groups: int, hosts: int) -> dict[str, str]:
    """Actives with a standby each, which is on another host."""
    at = {str(g): f"host-{g % hosts}" for g in range(groups)}
    return at | {f"{g}-0": f"host-{(g + 1) % hosts}" for g in range(groups)}


@BOTH
def test_everybody_is_restarted_once_in_order(coordinator: CoordinatorKind) -> None:
    """Standbys first; the next is asked when the one before is back, and not before."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    result = run(world, book, plan_of(world))
    assert result.end is End.DONE
    assert world.order() == ["0-0", "1-0", "0", "1"]
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert most_at_once(list(result.rows)) == 1
    assert book.told[-1] == "4/4"
    assert any("/4, about" in text for text in book.told)


def test_a_row_tells_how_long_it_was_down_and_when_it_was_back() -> None:
    """Down from its stop until it checked in; its place was free when its lag was back."""
    world, book = BounceWorld(), Book()
    result = run(world, book, plan_of(world, only=["0", "0-0"]))
    standby, row = result.rows
    assert standby.why == "it runs with a lag of 0"
    assert standby.seconds is not None
    assert (
        standby.seconds >= (world.reserve_ms + world.stop_ms + world.start_ms + world.lag_ms) / 1000
    )
    assert row.down_s == pytest.approx((world.stop_ms + world.start_ms) / 1000, abs=0.5)
    assert row.seconds is not None
    assert row.seconds >= (world.reserve_ms + world.stop_ms + world.start_ms + world.lag_ms) / 1000
    assert row.why == "it runs and processes with a lag of 0"
    assert row.execution == "0#1"


@BOTH
def test_two_at_once_are_never_of_one_group(coordinator: CoordinatorKind) -> None:
    """And never three."""
    world, book = BounceWorld(at=many(4, 3), coordinator=coordinator), Book()
    result = run(world, book, plan_of(world, at_once=2))
    assert result.end is End.DONE
    rows = [r for r in result.rows if r.asked_ms and r.back_ms]
    assert most_at_once(rows) == 2
    for a in rows:
        for b in rows:
            if a is not b and group_of(a.processor) == group_of(b.processor):
                assert a.back_ms <= b.asked_ms or b.back_ms <= a.asked_ms  # pyright: ignore[reportOptionalOperand]
    assert world.restarts() == dict.fromkeys(world.at, 1)


def test_hosts_go_one_after_the_other() -> None:
    """All of a host's containers, as many at once as allowed, before the next host's."""
    world, book = BounceWorld(at=many(6, 3)), Book()
    result = run(world, book, plan_of(world, unit=BounceUnit.hosts, at_once=2))
    assert result.end is End.DONE
    hosts = [world.at[p] for p in world.order()]
    assert hosts == sorted(hosts, key=hosts.index)
    assert most_at_once(list(result.rows)) == 2


@pytest.mark.parametrize("why", ["slow", "far", "failed"])
def test_a_canary_that_does_not_come_back_ends_it(why: str) -> None:
    """It doesn't process, or its lag stays, or it fails: nobody else is touched."""
    world, book = BounceWorld(), Book()
    if why == "failed":
        world.ends = {"0": [NOT_STARTED]}
    else:
        getattr(world, why).add("0")
    plan = plan_of(world, only=["0", "1"], canaries=1, stop_after_failures=9)
    result = run(world, book, plan)
    assert result.end is End.STOPPED
    assert "the canary failed: 0" in result.because
    assert world.order() == ["0"]
    (failed,) = result.are(Stand.FAILED)
    assert {"slow": "no input offset grew", "far": "records behind", "failed": "FAILED"}[
        why
    ] in failed.why


@pytest.mark.parametrize(("verify_timeout_s", "end"), [(60, End.DONE), (0, End.STOPPED)])
def test_an_active_of_which_nobody_tells_that_it_restored_isnt_back_unless_it_processes(
    verify_timeout_s: int, end: End
) -> None:
    """It runs before its stores are restored, and processes only after."""
    world, book = BounceWorld(mute={"0"}), Book()
    given = {"verify_timeout_s": verify_timeout_s, "bake_s": 10}
    plan = plan_of(world, only=["0"], canaries=1, lag_timeout_s=60, **given)
    result = run(world, book, plan)
    assert result.end is end
    (row,) = result.rows
    assert row.why.startswith(
        "it runs and processes" if verify_timeout_s else "its lag isn't known since it started"
    )


def test_the_others_wait_until_the_canary_was_watched_and_judged() -> None:
    """Without a check: it still runs, has committed since, and its lag is small."""
    world, book = BounceWorld(), Book()
    result = run(world, book, plan_of(world, only=["0", "1"], canaries=1, bake_s=60))
    assert result.end is End.DONE
    first, second = result.rows
    assert first.back_ms is not None
    assert second.asked_ms is not None
    assert second.asked_ms >= first.back_ms + 60_000
    assert any("the canary runs, processes" in line for line in book.lines)


def test_a_canary_that_dies_in_its_bake_is_a_no() -> None:
    """It runs again, but not as the one that was seen back."""
    world, book = BounceWorld(), Book()

    def die(world: BounceWorld) -> None:
        if book.back() and len(world.starts["0"]) == 1:
            world.starts["0"].append(world.now_ms)

    world.on_sleep = die
    result = run(world, book, plan_of(world, only=["0", "1"], canaries=1, bake_s=60))
    assert result.end is End.STOPPED
    assert "the canary failed: 0" in result.because
    assert "died since: 0 runs as 0#2, no longer as 0#1" in result.are(Stand.FAILED)[0].why
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
    assert result.end is End.STOPPED
    assert f"the canary failed: {canary}" in result.because
    (failed,) = result.are(Stand.FAILED)
    assert failed.why == f"it was back and died since: {canary} is starting"
    assert failed.back_ms is not None
    crashed_ms = failed.back_ms + 120_000
    assert all(r.asked_ms is None or r.asked_ms < crashed_ms + 2_000 for r in result.rows)


def test_who_was_back_and_dies_keeps_its_place_until_it_runs() -> None:
    """With one place nobody else is down meanwhile; it counts as a failure."""
    world, book = BounceWorld(at=many(6, 3)), Book()
    hurt, most = crash("0-0", book, 20_000, 90_000), 0

    def count(world: BounceWorld) -> None:
        nonlocal most
        hurt(world)
        most = max(most, len(world.down()) if world.crashed else 0)

    world.on_sleep = count
    result = run(world, book, plan_of(world, stop_after_failures=3))
    assert most <= 2  # the one that was in flight when it died
    assert [r.processor for r in result.are(Stand.FAILED)] == ["0-0"]
    assert [r.processor for r in result.are(Stand.WAITING)] == ["0"]
    assert any("0-0 is starting: who failed or died keeps its place" in line for line in book.lines)
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
    assert result.end is End.STOPPED
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
    assert [r.processor for r in result.are(Stand.BACK)] == ["0"]
    assert result.end is End.STOPPED
    assert "the budget of failures is spent: 0-0" in result.because
    assert any("whether somebody has asked for that" in line for line in book.lines)


def test_what_is_left_of_the_bake_is_part_of_the_time_left() -> None:
    """Of an hour's bake it isn't told that seconds are left, and it shrinks."""
    world, book = BounceWorld(), Book()
    result = run(world, book, plan_of(world, canaries=1, bake_s=3_600))
    assert result.end is End.DONE
    baking = [text.partition("about ")[2] for text in book.told if text.startswith("1/4")]
    assert baking[0] == "60 min left"
    assert baking[1:31] == [f"{minutes} min left" for minutes in range(59, 29, -1)]


@pytest.mark.parametrize("canaries", [0, 1])
def test_who_is_restarted_by_somebody_else_after_it_was_back_has_not_failed(canaries: int) -> None:
    """A planned move: seen in flight, or by its answer alone."""
    world, book = BounceWorld(at=many(3, 3)), Book()
    hurt = crash("0-0", book, 5_000, 4_000)

    def move(world: BounceWorld) -> None:
        before = world.crashed
        hurt(world)
        action = ActionView("x", "0-0", "host-9", "stopping", 0)
        world.others = (action,) if world.crashed else ()
        if before and not world.crashed:
            world.starts["0-0"].append(world.now_ms)
            world.at["0-0"] = "host-9"
            world.earlier = [earlier_restart("0-0", world.now_ms, 1)]

    world.on_sleep = move
    plan = plan_of(world, canaries=canaries, bake_s=30)
    result = run(world, book, plan)
    assert result.end is End.DONE
    row = next(r for r in result.rows if r.processor == "0-0")
    assert (row.stand, row.execution, row.now_on) == (Stand.BACK, "0-0#2", "host-9")
    assert any("somebody else has asked for that" in line for line in book.lines)


def test_who_died_while_no_worker_watched_is_verified_again_and_not_restarted() -> None:
    """Whoever goes on with the bounce: it keeps its place until it is back, and keeps its times."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world)

    def pause(world: BounceWorld) -> None:
        book.order = "pause" if len(book.back()) == 2 else ""

    world.on_sleep = pause
    assert run(world, book, plan).end is End.PAUSED
    before = book.back()["0-0"]
    world.on_sleep, book.order = None, ""
    world.now_ms += 86_400_000
    world.starts["0-0"].append(world.now_ms)
    result = run(world, book, plan)
    assert result.end is End.DONE
    after = result.rows[0]
    assert (after.execution, after.seconds, after.uuid) == ("0-0#2", before.seconds, before.uuid)
    assert after.back_ms is not None
    assert after.back_ms >= world.starts["0-0"][-1] + world.lag_ms
    asked = next(r.asked_ms for r in result.rows if r.processor == "1")
    assert asked is not None
    assert asked >= after.back_ms
    assert len(world.requests) == 4


@pytest.mark.parametrize(
    ("check", "end"), [(True, End.DONE), (False, End.STOPPED), (None, End.STOPPED)]
)
def test_an_asset_check_judges_by_a_result_since_the_bake(check: bool | None, end: End) -> None:
    """None in time is a no."""
    world, book = BounceWorld(), Book(check=check)
    judge = {"judge_asset": "a/b", "judge_check": "c", "judge_timeout_s": 100}
    result = run(world, book, plan_of(world, canaries=1, bake_s=30, **judge))
    assert result.end is end
    assert len(world.order()) == (4 if check else 1)
    back = book.back()["0-0"].back_ms
    assert back is not None
    assert book.asked_check > 1
    others = [r.asked_ms for r in world.requests.values() if r.processor != "0-0"]
    assert all(at >= back + 30_000 for at in others)


@pytest.mark.parametrize("ahead_ms", [-86_400_000, 0, 86_400_000])
def test_a_canary_is_baked_by_the_clock_of_the_run_that_watches_it(ahead_ms: int) -> None:
    """Killed while it watched, on a machine with another clock: the bake is neither cut nor drawn out."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world, canaries=1, bake_s=100)

    def kill(world: BounceWorld) -> None:
        if book.back():
            world.kill_at = world.calls + 1

    world.on_sleep = kill
    with pytest.raises(Killed):
        run(world, book, plan)
    world.on_sleep = world.kill_at = None
    book.rows = [replace(row, back_ms=(row.back_ms or 0) + ahead_ms) for row in book.rows]
    began_ms = world.now_ms
    assert run(world, book, plan).end is End.DONE
    asked = sorted(r.asked_ms for r in world.requests.values())[1]
    assert began_ms + 100_000 <= asked <= began_ms + 115_000


def test_after_the_budget_is_spent_what_is_in_flight_is_finished() -> None:
    """And nothing else is asked."""
    world, book = BounceWorld(at=many(4, 4)), Book()
    world.ends = {"0-0": [(StatusCode.FAILED, texts.expired("no room"))]}
    result = run(world, book, plan_of(world, at_once=2, stop_after_failures=1))
    assert result.end is End.STOPPED
    assert "the budget of failures is spent: 0-0" in result.because
    assert len(result.are(Stand.BACK)) == 1
    assert len(world.order()) == 2


def test_within_the_budget_the_group_of_who_failed_is_left_alone() -> None:
    """An active whose standby isn't back keeps running."""
    world, book = BounceWorld(), Book()
    world.ends = {"0-0": [NOT_STARTED]}
    result = run(world, book, plan_of(world, stop_after_failures=5))
    assert result.end is End.STOPPED
    assert [r.processor for r in result.are(Stand.WAITING)] == ["0"]
    assert world.order() == ["0-0", "1-0", "1"]


@BOTH
@pytest.mark.parametrize("failing", ["0-0", "0"])
def test_who_failed_and_is_down_keeps_its_place_until_it_runs(
    coordinator: CoordinatorKind, failing: str
) -> None:
    """At no time are more than `at_once` down, of all that the bounce has touched.

    Under Samza's AM its own work shows that it runs: nothing else does.
    """
    world, book = BounceWorld(at=many(3, 3), coordinator=coordinator), Book()
    world.ends, world.down_after_failure = {failing: [NOT_STARTED]}, 90_000
    most = 0

    def count(world: BounceWorld) -> None:
        nonlocal most
        most = max(most, len(world.down()))

    world.on_sleep = count
    result = run(world, book, plan_of(world, stop_after_failures=3))
    assert most == 1
    assert [r.processor for r in result.are(Stand.FAILED)] == [failing]
    left = ["0"] if failing == "0-0" else []
    assert [r.processor for r in result.are(Stand.WAITING)] == left
    assert any("keeps its place until it runs" in line for line in book.lines)


@BOTH
def test_who_failed_and_stays_down_ends_the_bounce_in_time(coordinator: CoordinatorKind) -> None:
    """It says whom it waited for, and waits no longer than for a restart."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    world.ends, world.down_after_failure = {"0-0": [NOT_STARTED]}, 10**9
    result = run(world, book, plan_of(world, stop_after_failures=3, timeout_s=60))
    assert result.end is End.STOPPED
    assert "nobody may be touched for 60 s: 0-0 " in result.because
    assert world.order() == ["0-0"]
    assert world.now_ms - BEGIN_MS < 90_000


def test_who_is_down_since_an_earlier_run_of_the_bounce_keeps_its_place() -> None:
    """A person re-executes it: what failed is tried again when it runs, and nobody else before."""
    world, book = BounceWorld(), Book()
    world.ends, world.down_after_failure = {"0-0": [NOT_STARTED]}, 10**9
    plan = plan_of(world, stop_after_failures=2, timeout_s=60)
    assert run(world, book, plan).end is End.STOPPED
    assert run(world, book, plan).end is End.STOPPED
    assert world.order() == ["0-0"]
    world.down_after_failure = 0
    assert run(world, book, plan).end is End.DONE


def test_with_two_places_the_others_go_on_beside_who_is_down() -> None:
    """One at a time then, and its group is left alone."""
    world, book = BounceWorld(at=many(3, 3)), Book()
    world.ends, world.down_after_failure = {"0-0": [NOT_STARTED]}, 10**9
    most = 0

    def count(world: BounceWorld) -> None:
        nonlocal most
        most = max(most, len(world.down()))

    world.on_sleep = count
    result = run(world, book, plan_of(world, stop_after_failures=3, at_once=2))
    assert most <= 2
    assert len(result.are(Stand.BACK)) == 4
    assert "of each group that is left a member has failed" in result.because


def test_a_request_without_an_end_keeps_its_place_and_its_group() -> None:
    """It may still stop its container: with one place nobody else is asked."""
    world, book = BounceWorld(coordinator="samza", never_ends={"0-0"}), Book()
    result = run(world, book, plan_of(world, stop_after_failures=5, timeout_s=30))
    assert result.end is End.STOPPED
    assert [r.processor for r in result.are(Stand.STUCK)] == ["0-0"]
    assert world.order() == ["0-0"]
    two = BounceWorld(coordinator="samza", never_ends={"0-0"})
    result = run(two, Book(), plan_of(two, stop_after_failures=5, timeout_s=30, at_once=2))
    assert [r.processor for r in result.are(Stand.WAITING)] == ["0"]
    assert two.order() == ["0-0", "1-0", "1"]


def test_a_hold_that_takes_too_long_is_given_back() -> None:
    """Nothing was stopped, so its place is free; it counts as a failure."""
    world, book = BounceWorld(crowded={"0-0"}), Book()
    result = run(world, book, plan_of(world, timeout_s=30))
    assert result.end is End.STOPPED
    assert world.released == ["0-0"]
    assert "runs on untouched" in result.are(Stand.FAILED)[0].why
    assert world.restarts() == {}


def test_it_waits_while_somebody_else_acts_on_a_group() -> None:
    """The other group is taken first; after a while nobody may be touched, and it says why."""
    world, book = BounceWorld(others=(ActionView("x", "0", "host-9", "stopping", 0),)), Book()
    result = run(world, book, plan_of(world, timeout_s=20))
    assert world.order() == ["1-0", "1"]
    assert result.end is End.STOPPED
    assert "request x for 0 is stopping" in result.because
    world.others = ()
    assert run(world, book, plan_of(world)).end is End.DONE
    assert world.restarts() == dict.fromkeys(world.at, 1)


@BOTH
def test_other_groups_go_on_while_a_standby_that_runs_has_not_told_its_lag(
    coordinator: CoordinatorKind,
) -> None:
    """Its lag is in its second report, which would cost each standby a minute.

    It is waited for once, before the first active, and never is more than one of them down.
    """
    world, book = BounceWorld(coordinator=coordinator, report_every_ms=60_000, lag_ms=0), Book()
    most = 0

    def count(world: BounceWorld) -> None:
        nonlocal most
        most = max(most, len(world.down()))

    world.on_sleep = count
    result = run(world, book, plan_of(world))
    assert result.end is End.DONE
    assert world.order() == ["0-0", "1-0", "0", "1"]
    assert most == 1
    rows = {row.processor: row for row in result.rows}
    for active in ("0", "1"):
        standby = rows[f"{active}-0"]
        assert standby.seconds is not None
        assert standby.seconds >= 60
        assert (rows[active].asked_ms or 0) >= (standby.back_ms or 0)
    up_s = (world.reserve_ms + world.stop_ms + world.start_ms) / 1000
    at_work_s = 4 * up_s + 2 * world.process_ms / 1000
    assert (world.now_ms - BEGIN_MS) / 1000 <= 60 + 1.1 * at_work_s


def test_a_standby_that_is_behind_at_its_report_is_waited_for_until_its_next() -> None:
    """A minute later, with Samza's default."""
    world = BounceWorld(coordinator="samza", report_every_ms=60_000, at={"0": "h1", "0-0": "h2"})
    world.lag_ms = 61_000
    result = run(world, Book(), plan_of(world))
    assert result.end is End.DONE
    seconds = {row.processor: row.seconds or 0.0 for row in result.rows}
    assert 120 <= seconds["0-0"] < 135
    assert seconds["0"] < 15


def test_a_standby_that_tells_that_it_is_behind_has_its_place_again() -> None:
    """Nobody else is asked from then on, and its failure ends the bounce."""
    world = BounceWorld(at=many(3, 3), coordinator="samza", report_every_ms=60_000, far={"2-0"})
    result = run(world, Book(), plan_of(world, lag_timeout_s=300))
    assert result.end is End.STOPPED
    assert world.order() == ["2-0", "0-0", "1-0"]
    (failed,) = result.are(Stand.FAILED)
    assert (failed.processor, failed.lag) == ("2-0", 1_000)


FOUR_OF_LATE = (200_000, 150_000, 100_000, 10_000)


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_a_processor_stopped_four_times_of_late_is_asked_when_its_row_is_over(
    ahead_ms: int,
) -> None:
    """Whoever placed it: Samza's AM counts them all, and dates them by its own clock."""
    world, book = BounceWorld(coordinator="samza", leader_skew_ms=ahead_ms), Book()
    times = (BEGIN_MS + ahead_ms - age for age in FOUR_OF_LATE)
    world.earlier = [earlier_restart("0-0", at, n) for n, at in enumerate(times)]
    result = run(world, book, plan_of(world))
    assert result.end is End.DONE
    assert world.order()[-1] in ("0-0", "0")
    asked = next(r.asked_ms for r in result.rows if r.processor == "0-0")
    assert asked is not None
    assert BEGIN_MS - 10_000 + 300_000 <= asked <= BEGIN_MS + 430_000
    waits = [line for line in book.lines if "0-0 waits until" in line]
    assert waits
    assert "4 of the 8 stops in a row that Samza's AM lets pass are spent" in waits[-1]
    assert any("3/4, about 5 min left" in line or ahead_ms for line in waits)
    assert not any("about 16 s left" in line for line in waits)


def test_a_wait_is_told_and_is_in_the_time_left_before_anything_is_in_flight() -> None:
    """Also while nothing is measured yet."""
    world, book = BounceWorld(coordinator="samza"), Book()
    times = (BEGIN_MS - age for age in FOUR_OF_LATE)
    world.earlier = [earlier_restart("0-0", at, n) for n, at in enumerate(times)]
    assert run(world, book, plan_of(world, only=["0-0"])).end is End.DONE
    assert book.told[0] == "0/1, at least 6 min left"
    assert "0-0 waits until 2023-11-14 22:19:10 UTC" in book.lines[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"status_code": StatusCode.BAD_REQUEST, "response_message": "BAD_REQUEST reason: no"},
        {"status_code": StatusCode.FAILED, "response_message": texts.expired("no room")},
        {"deployment_id": "run-0"},
    ],
)
def test_what_has_stopped_nothing_in_this_deployment_is_not_waited_for(
    changes: dict[str, object],
) -> None:
    """It costs a bounce nothing."""
    world, book = BounceWorld(coordinator="samza"), Book()
    stops = [earlier_restart("0-0", BEGIN_MS - age, n) for n, age in enumerate(FOUR_OF_LATE)]
    world.earlier = [stop.model_copy(update=changes) for stop in stops]
    result = run(world, book, plan_of(world))
    assert result.end is End.DONE
    assert world.order()[0] == "0-0"


def test_a_bounce_on_our_coordinator_waits_for_no_placement_of_before() -> None:
    """It counts failures alone: four moves by hand would cost such a bounce six minutes."""
    world, book = BounceWorld(), Book()
    times = (BEGIN_MS - age for age in FOUR_OF_LATE)
    world.earlier = [earlier_restart("0-0", at, n) for n, at in enumerate(times)]
    result = run(world, book, plan_of(world))
    assert result.end is End.DONE
    asked = next(r.asked_ms for r in result.rows if r.processor == "0-0")
    assert asked is not None
    assert asked < BEGIN_MS + 60_000


def test_what_holds_a_restart_up_is_told_while_it_goes_on() -> None:
    """As that its node is lost: the coordinator itself says so minutes later."""
    world, book = BounceWorld(coordinator="samza", trouble="host-0 is LOST"), Book()
    result = run(world, book, plan_of(world, only=["0"]))
    assert result.end is End.DONE
    assert any("stop in progress; host-0 is LOST" in line for line in book.lines + book.told)


def test_a_restart_that_a_dead_am_had_taken_is_over_at_once_and_the_next_run_asks_anew() -> None:
    """Nobody goes on with it: its time-out would be waited for in vain."""
    world, book = BounceWorld(coordinator="samza"), Book()
    plan = plan_of(world, only=["0"])

    def replaced(world: BounceWorld) -> None:
        if any(request.statuses for request in world.requests.values()):
            world.deployment = "run-2"

    world.on_sleep = replaced
    (row,) = run(world, book, plan).rows
    assert row.stand is Stand.FAILED
    assert "over: deployment run-1 ended; run-2 runs" in row.why
    assert world.now_ms - BEGIN_MS < 30_000
    assert run(world, Book(), plan).end is End.DONE
    assert [request.deployment for request in world.requests.values()] == ["run-1", "run-2"]


def test_a_broker_that_is_away_for_a_while_ends_nothing() -> None:
    """What couldn't be asked is asked again under the same id."""
    for call in range(1, 60):
        world, book = BounceWorld(), Book()
        plan = plan_of(world, only=["0"])
        world.breaks = {call: Unreachable("the broker", seen="no answer")}
        assert run(world, book, plan).end is End.DONE
        assert world.restarts() == {"0": 1}


def test_a_pause_finishes_what_is_in_flight_and_a_later_run_does_the_rest() -> None:
    """Nobody is restarted twice."""
    world, book = BounceWorld(at=many(3, 3)), Book()
    plan = plan_of(world, at_once=2)

    def pause(world: BounceWorld) -> None:
        if len(world.requests) >= 3:
            book.order = "pause"

    world.on_sleep = pause
    result = run(world, book, plan)
    assert result.end is End.PAUSED
    assert world.in_flight() == []
    assert len(result.are(Stand.BACK)) == len(world.requests) < 6
    assert not result.are(Stand.IN_FLIGHT)
    world.on_sleep, book.order = None, ""
    assert run(world, book, plan).end is End.DONE
    assert world.restarts() == dict.fromkeys(world.at, 1)


@BOTH
def test_what_was_committed_while_no_run_looked_counts_in_the_one_that_goes_on(
    coordinator: CoordinatorKind,
) -> None:
    """Killed while it waited for commits, of an input that has been idle ever since."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    plan = plan_of(world, only=["0"], lag_timeout_s=0)
    world.kill_on = ("processing", 1)
    with pytest.raises(Killed):
        run(world, book, plan)
    world.kill_on = None
    world.now_ms += 600_000
    world.idle_since_ms = world.now_ms - 590_000
    assert run(world, book, plan).end is End.DONE
    assert world.restarts() == {"0": 1}


def test_an_abort_gives_back_what_is_held_and_tells_what_goes_on() -> None:
    """One was committed, the other wasn't."""
    world, book = BounceWorld(crowded={"1-0"}), Book()

    def abort(world: BounceWorld) -> None:
        if any(r.stop_ms is not None for r in world.requests.values()):
            book.order = "abort"

    world.on_sleep = abort
    result = run(world, book, plan_of(world, at_once=2))
    assert result.end is End.ABORTED
    assert world.released == ["1-0"]
    assert [r.processor for r in result.are(Stand.IN_FLIGHT)] == ["0-0"]
    assert any("0-0: request" in line and "in flight" in line for line in book.lines)
    assert [r.processor for r in result.are(Stand.WAITING)] == ["1-0", "0", "1"]


@given(
    kill_at=st.integers(1, 400),
    after=st.booleans(),
    again=st.integers(1, 300),
    coordinator=st.sampled_from(["samza", "samza_dagster"]),
    at_once=st.integers(1, 3),
    canaries=st.integers(0, 1),
    away_s=st.sampled_from([1, 200]),
    report_every_ms=st.sampled_from([0, 8_000]),
)
def test_a_bounce_killed_at_any_call_restarts_everybody_once(
    kill_at: int,
    after: bool,
    again: int,
    coordinator: CoordinatorKind,
    at_once: int,
    canaries: int,
    away_s: int,
    report_every_ms: int,
) -> None:
    """Twice killed, before or after the call got through; then it goes on to its end.

    Nobody looks for so long that a hold expires: it is reserved anew.
    """
    world, book = BounceWorld(at=many(3, 3), coordinator=coordinator), Book()
    world.report_every_ms = report_every_ms
    plan = plan_of(world, at_once=at_once, canaries=canaries, bake_s=5)
    world.calls, world.kill_after = 0, after
    for kill in (kill_at, again, None):
        world.kill_at = None if kill is None else world.calls + kill
        try:
            result = run(world, book, plan)
        except Killed:
            world.now_ms += away_s * 1_000
            continue
        assert result.end is End.DONE
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert away_s > 100 or len(world.requests) == len(world.at)


def test_a_deployment_that_is_over_takes_its_requests_with_it() -> None:
    """Samza's AM died: what it had begun never ends, and is asked anew of the next."""
    world, book = BounceWorld(coordinator="samza", never_ends={"0-0"}), Book()
    plan = plan_of(world, timeout_s=30)
    assert run(world, book, plan).end is End.STOPPED
    world.deployment, world.never_ends = "run-2", set()
    assert run(world, book, plan).end is End.DONE
    assert world.order().count("0-0") == 2


def test_a_container_that_left_the_job_is_passed_over() -> None:
    """A standby that was stopped for good meanwhile."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world)
    del world.at["1-0"]
    result = run(world, book, plan)
    assert result.end is End.DONE
    assert [r.processor for r in result.are(Stand.GONE)] == ["1-0"]


def test_a_hold_that_expires_before_its_commit_fails_that_one_alone() -> None:
    """The coordinator was faster: the commit is refused, and the next look tells why."""
    world, book = BounceWorld(hold_ms=1), Book()
    result = run(world, book, plan_of(world, stop_after_failures=9))
    assert result.end is End.STOPPED
    assert {r.processor for r in result.are(Stand.FAILED)} == {"0-0", "1-0"}
    assert all("not committed in time" in r.why for r in result.are(Stand.FAILED))
    assert world.restarts() == {}


def test_a_lag_that_shrinks_fills_no_log() -> None:
    """A line when it begins to wait for it, then the heartbeat."""
    world, book = BounceWorld(lag_ms=100_000), Book()
    assert run(world, book, plan_of(world, only=["0-0"])).end is End.DONE
    assert sum("records behind" in line for line in book.lines) <= 5


def test_samza_s_am_never_counts_a_processor_to_its_end() -> None:
    """Its own rule, over a standby that fails each time and a person who tries on and on."""
    world, book = BounceWorld(coordinator="samza", ends={"0-0": [NOT_STARTED] * 12}), Book()
    plan = plan_of(world, only=["0-0"])
    for _ in range(12):
        assert run(world, book, plan).end is End.STOPPED
    count, last = 0, 0
    for request in world.requests.values():
        assert request.stop_ms is not None
        count = count + 1 if request.stop_ms - last < 300_000 else 1
        last = request.stop_ms
        assert count <= 4
    assert len(world.requests) == 12


SKEWS = [
    {},
    dict.fromkeys(("host-1", "host-3"), -150_000),
    dict.fromkeys(("host-1", "host-3"), 150_000),
    {"leader": -150_000},
    {"leader": 150_000, "host-2": -86_400_000},
]


@BOTH
@pytest.mark.parametrize("skew_ms", SKEWS)
def test_a_bounce_goes_the_same_way_whatever_the_clocks_of_hosts_and_leader_say(
    coordinator: CoordinatorKind, skew_ms: dict[str, int]
) -> None:
    """What counts since a restart is told by offsets, incarnations and what is new to the worker."""
    plain = BounceWorld(coordinator=coordinator)
    run(plain, Book(), plan_of(plain))
    world = BounceWorld(coordinator=coordinator)
    world.skew_ms, world.leader_skew_ms = skew_ms, skew_ms.get("leader", 0)
    result = run(world, Book(), plan_of(world))
    assert result.end is End.DONE
    assert world.order() == plain.order()
    assert world.now_ms == plain.now_ms


@pytest.mark.parametrize("leader_skew_ms", [-150_000, 150_000])
def test_an_old_incarnations_commits_dont_pass_for_the_new_ones(leader_skew_ms: int) -> None:
    """However long before or after them the leader dates its answer."""
    world, book = BounceWorld(slow={"0"}, leader_skew_ms=leader_skew_ms), Book()
    result = run(world, book, plan_of(world, only=["0"]))
    assert result.end is End.STOPPED
    assert "no input offset grew" in result.rows[0].why
