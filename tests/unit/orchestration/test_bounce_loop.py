"""A bounce in virtual time: what it asks, when it goes on, how it ends, killed or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest

from samza_dagster.client.views import CoordinatorKind
from samza_dagster.metadata.resource_manager import Application, Cluster, YarnNode
from samza_dagster.model import StatusCode
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.operations.schedule import Progress, Result, RunEnd, UnitStatus
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig, make_plan
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.placement import texts
from samza_dagster.placement.state import PlacementAsk
from tests.rig.bounce_world import BEGIN_MS, BounceWorld

pytestmark = pytest.mark.unit
NOT_STARTED = (StatusCode.FAILED, texts.start_failed("a", "b"))
RUNS = Application("application_1_0001", "RUNNING")
BOTH = pytest.mark.parametrize("coordinator", ["samza_dagster", "samza"])


@dataclass
class Book:
    """A ledger that outlives its worker, as Dagster's does."""

    rows: list[Progress] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    check: bool | None = None
    asked_check: int = 0
    tags: list[object] = field(default_factory=list)

    def log(self, text: str, row: Progress | None = None) -> None:
        self.lines.append(text)

    def finished(self, row: Progress, rows: Mapping[str, Progress], done: int) -> None:
        self.rows.append(row)

    def progress(self, text: str) -> None:
        self.told.append(text)

    def check_passed(self) -> bool | None:
        self.asked_check += 1
        return self.check if self.asked_check > 1 else None

    def back(self) -> dict[str, Progress]:
        return {r.processor: r for r in self.rows if r.status is UnitStatus.BACK}


@cache
def policies() -> PlacementPolicies:
    return PlacementPolicies(verify_timeout_s=60, lag_limit=100, timeout_s=300)


def plan_of(world: BounceWorld, **config: object) -> UnitsPlan:
    made = RollingBounceConfig(**{"canaries": 0, **config})  # pyright: ignore[reportArgumentType]
    return make_plan(world.view(), made, policies())


def run(world: BounceWorld, book: Book, plan: UnitsPlan, *, root: str = "root") -> Result:
    holds: dict[str, str] = {}
    made = Runner(
        world.client(),
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


def most_at_once(rows: list[Progress]) -> int:
    """Of those that were down or not yet back."""
    spans = [(r.asked_ms, r.back_ms) for r in rows if r.asked_ms and r.back_ms]
    return max(sum(a <= at < b for a, b in spans) for at, _ in spans)


def many(groups: int, hosts: int) -> dict[str, str]:
    """Actives with a standby each, which is on another host."""
    at = {str(g): f"host-{g % hosts}" for g in range(groups)}
    return at | {f"{g}-0": f"host-{(g + 1) % hosts}" for g in range(groups)}


def downs(
    world: BounceWorld, before: Callable[[BounceWorld], object] = lambda _: None
) -> list[int]:
    """How many are down whenever the bounce sleeps, from now on; `before` happens first."""
    seen: list[int] = []

    def count(world: BounceWorld) -> None:
        before(world)
        seen.append(len(world.down()))

    world.on_sleep = count
    return seen


def stopped_four_times(world: BounceWorld, processor: str, **changes: object) -> None:
    """Half of what Samza's AM lets pass, by somebody else, in the last 200 s of its clock."""
    now_ms = BEGIN_MS + world.leader_skew_ms
    times = [now_ms - age for age in (200_000, 150_000, 100_000, 10_000)]
    world.restarted_by_others(processor, times, **changes)


@BOTH
def test_everybody_is_restarted_once_in_order(coordinator: CoordinatorKind) -> None:
    """Standbys first; the next is asked when the one before is back, and not before."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    result = run(world, book, plan_of(world))
    assert result.end is RunEnd.DONE
    assert world.order() == ["0-0", "1-0", "0", "1"]
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert most_at_once(list(result.rows)) == 1
    assert book.told == ["0/4", "1/4", "2/4", "3/4", "4/4"]


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
    assert (
        row.seconds >= (world.reserve_ms + world.stop_ms + world.start_ms + world.process_ms) / 1000
    )
    assert row.why == "it runs and processes with a lag of 0"
    assert row.execution == "0#1"


@BOTH
def test_two_at_once_are_never_of_one_group(coordinator: CoordinatorKind) -> None:
    """And never three."""
    world, book = BounceWorld(at=many(4, 3), coordinator=coordinator), Book()
    result = run(world, book, plan_of(world, at_once=2))
    assert result.end is RunEnd.DONE
    rows = [r for r in result.rows if r.asked_ms and r.back_ms]
    assert most_at_once(rows) == 2
    for a in rows:
        for b in rows:
            if a is not b and group_of(a.processor) == group_of(b.processor):
                assert a.back_ms <= b.asked_ms or b.back_ms <= a.asked_ms  # pyright: ignore[reportOptionalOperand]
    assert world.restarts() == dict.fromkeys(world.at, 1)


@pytest.mark.parametrize(("verify_timeout_s", "end"), [(60, RunEnd.DONE), (0, RunEnd.STOPPED)])
def test_an_active_of_which_nobody_tells_that_it_restored_isnt_back_unless_it_processes(
    verify_timeout_s: int, end: RunEnd
) -> None:
    """It runs before its stores are restored, and processes only after."""
    world, book = BounceWorld(mute={"0"}), Book()
    given = {"verify_timeout_s": verify_timeout_s, "bake_s": 10}
    plan = plan_of(world, only=["0"], canaries=1, lag_timeout_s=60, **given)
    result = run(world, book, plan)
    assert result.end is end
    (row,) = result.rows
    said = "it runs and processes" if verify_timeout_s else "seen: its lag isn't reported yet"
    assert said in row.why


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
    down = downs(world)
    result = run(world, book, plan_of(world, stop_after_failures=3))
    assert max(down) == 1
    assert [r.processor for r in result.are(UnitStatus.FAILED)] == [failing]
    left = ["0"] if failing == "0-0" else []
    assert [r.processor for r in result.are(UnitStatus.WAITING)] == left
    assert any("keeps its place until it runs" in line for line in book.lines)


@BOTH
def test_who_failed_and_stays_down_ends_the_bounce_in_time(coordinator: CoordinatorKind) -> None:
    """It says whom it waited for, and waits no longer than for a restart."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    world.ends, world.down_after_failure = {"0-0": [NOT_STARTED]}, 10**9
    result = run(world, book, plan_of(world, stop_after_failures=3, timeout_s=60))
    assert result.end is RunEnd.STOPPED
    assert "nobody may be touched for 60 s: 0-0 " in result.because
    assert world.order() == ["0-0"]
    assert world.now_ms - BEGIN_MS < 90_000


def test_a_request_without_an_end_keeps_its_place_and_its_group() -> None:
    """It may still stop its container: with one place nobody else is asked."""
    world, book = BounceWorld(coordinator="samza", never_ends={"0-0"}), Book()
    result = run(world, book, plan_of(world, stop_after_failures=5, timeout_s=30))
    assert result.end is RunEnd.STOPPED
    assert [r.processor for r in result.are(UnitStatus.STUCK)] == ["0-0"]
    assert world.order() == ["0-0"]
    two = BounceWorld(coordinator="samza", never_ends={"0-0"})
    result = run(two, Book(), plan_of(two, stop_after_failures=5, timeout_s=30, at_once=2))
    assert [r.processor for r in result.are(UnitStatus.WAITING)] == ["0"]
    assert two.order() == ["0-0", "1-0", "1"]


def test_a_hold_that_takes_too_long_is_given_back() -> None:
    """Nothing was stopped, so its place is free; it counts as a failure."""
    world, book = BounceWorld(crowded={"0-0"}), Book()
    result = run(world, book, plan_of(world, timeout_s=30))
    assert result.end is RunEnd.STOPPED
    assert world.released == ["0-0"]
    assert "runs on untouched" in result.are(UnitStatus.FAILED)[0].why
    assert world.restarts() == {}


def test_it_waits_while_somebody_else_acts_on_a_group() -> None:
    """The other group is taken first; after a while nobody may be touched, and it says why."""
    world, book = BounceWorld(others=(PlacementAsk("x", "run-1", "0", "host-9", 0),)), Book()
    result = run(world, book, plan_of(world, timeout_s=20))
    assert world.order() == ["1-0", "1"]
    assert result.end is RunEnd.STOPPED
    why = "place 0 to host-9, which somebody else has asked for, is stopping (request x)"
    assert why in result.because
    assert book.told[-1] == f"2/4, 2 not begun; nobody may be touched for 20 s: {why}"
    ends = "; it ends at 2023-11-14 22:13:"
    assert any(text.startswith("2/4; ") and f"{why}{ends}" in text for text in book.told)
    world.others = ()
    assert run(world, book, plan_of(world)).end is RunEnd.DONE
    assert world.restarts() == dict.fromkeys(world.at, 1)


def test_a_bounce_that_is_held_up_again_and_again_goes_on_each_time() -> None:
    """`timeout_s` is for one time without a break in which nobody may be touched, not for all of them."""
    world, each = BounceWorld(), tuple(PlacementAsk(g, "run-1", g, "host-9", 0) for g in ("0", "1"))

    def hold_up(world: BounceWorld) -> None:
        world.others = () if (world.now_ms - BEGIN_MS) % 20_000 < 2_000 else each

    world.on_sleep = hold_up
    assert run(world, Book(), plan_of(world, timeout_s=15)).end is RunEnd.DONE
    assert world.now_ms - BEGIN_MS > 60_000


@BOTH
def test_other_groups_go_on_while_a_standby_that_runs_has_not_told_its_lag(
    coordinator: CoordinatorKind,
) -> None:
    """Its lag is in its second report, which would cost each standby a minute.

    It is waited for once, before the first active, and never is more than one of them down.
    """
    world, book = BounceWorld(coordinator=coordinator, report_every_ms=60_000, lag_ms=0), Book()
    down = downs(world)
    result = run(world, book, plan_of(world))
    assert result.end is RunEnd.DONE
    assert world.order() == ["0-0", "1-0", "0", "1"]
    assert max(down) == 1
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
    assert result.end is RunEnd.DONE
    seconds = {row.processor: row.seconds or 0.0 for row in result.rows}
    assert 120 <= seconds["0-0"] < 135
    assert seconds["0"] < 15


def test_a_standby_that_tells_that_it_is_behind_has_its_place_again() -> None:
    """Nobody else is asked from then on, and its failure ends the bounce."""
    world = BounceWorld(at=many(3, 3), coordinator="samza", report_every_ms=60_000, far={"2-0"})
    result = run(world, Book(), plan_of(world, lag_timeout_s=300))
    assert result.end is RunEnd.STOPPED
    assert world.order() == ["2-0", "0-0", "1-0"]
    (failed,) = result.are(UnitStatus.FAILED)
    assert (failed.processor, failed.lag) == ("2-0", 1_000)


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_a_processor_stopped_four_times_of_late_is_asked_when_its_row_is_over(
    ahead_ms: int,
) -> None:
    """Whoever placed it: Samza's AM counts them all, and dates them by its own clock."""
    world, book = BounceWorld(coordinator="samza", leader_skew_ms=ahead_ms), Book()
    stopped_four_times(world, "0-0")
    result = run(world, book, plan_of(world))
    assert result.end is RunEnd.DONE
    assert world.order()[-1] in ("0-0", "0")
    asked = next(r.asked_ms for r in result.rows if r.processor == "0-0")
    assert asked is not None
    assert BEGIN_MS - 10_000 + 300_000 <= asked <= BEGIN_MS + 430_000
    waits = [line for line in book.lines if "0-0 waits until" in line]
    assert waits
    assert "4 of the 8 stops in a row that Samza's AM lets pass are spent" in waits[-1]


def test_a_wait_is_told_before_anything_is_in_flight() -> None:
    """It says until when."""
    world, book = BounceWorld(coordinator="samza"), Book()
    stopped_four_times(world, "0-0")
    assert run(world, book, plan_of(world, only=["0-0"])).end is RunEnd.DONE
    told, _, why = book.told[0].partition("; ")
    assert told == "0/1"
    assert why.startswith("0-0 waits until 2023-11-14 22:19:10 UTC: 4 of the 8 stops")
    assert "0-0 waits until 2023-11-14 22:19:10 UTC" in book.lines[0]


@pytest.mark.parametrize(
    ("coordinator", "changes"),
    [
        ("samza", {"status_code": StatusCode.BAD_REQUEST, "response_message": "no"}),
        ("samza", {"status_code": StatusCode.FAILED, "response_message": texts.expired("no room")}),
        ("samza", {"deployment_id": "run-0"}),
        ("samza_dagster", {}),
    ],
)
def test_what_nobody_counts_as_a_stop_is_not_waited_for(
    coordinator: CoordinatorKind, changes: dict[str, object]
) -> None:
    """It stopped nothing in this deployment; or our coordinator leads, which counts failures alone."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    stopped_four_times(world, "0-0", **changes)
    result = run(world, book, plan_of(world))
    assert result.end is RunEnd.DONE
    assert world.order()[0] == "0-0"
    assert (result.rows[0].asked_ms or 0) < BEGIN_MS + 60_000


def test_what_holds_a_restart_up_is_told_while_it_goes_on() -> None:
    """As that its node is lost: the coordinator itself says so minutes later."""
    world, book = BounceWorld(coordinator="samza"), Book()

    def lose(world: BounceWorld) -> None:
        state = "LOST" if 0 < world.now_ms - BEGIN_MS < 3_000 else "RUNNING"
        world.yarn = Cluster("http://rm", {"host-1": YarnNode("host-1", state)}, RUNS)

    lose(world)
    world.on_sleep = lose
    result = run(world, book, plan_of(world, only=["0"]))
    assert result.end is RunEnd.DONE
    assert any(
        "; host-1 is LOST for YARN's ResourceManager" in line for line in book.lines + book.told
    )


def test_a_container_that_left_the_job_is_passed_over() -> None:
    """A standby that was stopped for good meanwhile."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world)
    del world.at["1-0"]
    result = run(world, book, plan)
    assert result.end is RunEnd.DONE
    assert [r.processor for r in result.are(UnitStatus.GONE)] == ["1-0"]


def test_a_lag_that_shrinks_fills_no_log() -> None:
    """A line when it begins to wait for it, then the heartbeat."""
    world, book = BounceWorld(lag_ms=100_000), Book()
    assert run(world, book, plan_of(world, only=["0-0"])).end is RunEnd.DONE
    assert sum("records behind" in line for line in book.lines) <= 5
