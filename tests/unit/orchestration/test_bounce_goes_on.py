"""A bounce over what ends its run, its coordinator or its broker: terminated, killed, begun again, by whatever clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bounce_loop import BOTH, NOT_STARTED, Book, many, plan_of, run

from samza_dagster.client.views import CoordinatorKind
from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.operations.schedule import RunEnd, UnitStatus
from tests.rig.bounce_world import BEGIN_MS, BounceWorld
from tests.rig.worker import Killed

pytestmark = pytest.mark.unit


class Terminated(BaseException):
    """As Dagster's Terminate raises it in the run's process."""


SKEWS = [
    {},
    dict.fromkeys(("host-1", "host-3"), -150_000),
    dict.fromkeys(("host-1", "host-3"), 150_000),
    {"leader": -150_000},
    {"leader": 150_000, "host-2": -86_400_000},
]


def test_who_died_while_no_worker_watched_is_verified_again_and_not_restarted() -> None:
    """Whoever goes on with the bounce: it keeps its place until it is back, and keeps its times."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world)

    def terminate(world: BounceWorld) -> None:
        if len(book.back()) == 2:
            raise Terminated

    world.on_sleep = terminate
    with pytest.raises(Terminated):
        run(world, book, plan)
    before = book.back()["0-0"]
    world.on_sleep = None
    world.now_ms += 86_400_000
    world.started_ms["0-0"].append(world.now_ms)
    result = run(world, book, plan)
    assert result.end is RunEnd.DONE
    after = result.rows[0]
    assert (after.execution, after.seconds, after.uuid) == ("0-0#2", before.seconds, before.uuid)
    assert after.back_ms is not None
    assert after.back_ms >= world.started_ms["0-0"][-1] + world.lag_ms
    asked = next(r.asked_ms for r in result.rows if r.processor == "1")
    assert asked is not None
    assert asked >= after.back_ms
    assert [request.processor for request in world.requests.values()].count("0-0") == 1


def test_an_active_that_died_while_no_worker_watched_is_back_by_its_own_commits_alone() -> None:
    """Those of the process that died came after the restart, too, and show nothing of the one that there is now."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world)

    def terminate(world: BounceWorld) -> None:
        if "0" in book.back():
            raise Terminated

    world.on_sleep = terminate
    with pytest.raises(Terminated):
        run(world, book, plan)
    world.on_sleep = None
    world.now_ms += 86_400_000
    world.client().processing("0", 0)
    world.started_ms["0"].append(world.now_ms)
    world.slow = {"0"}
    (failed,) = (row for row in run(world, book, plan).rows if row.processor == "0")
    assert failed.status is UnitStatus.FAILED
    assert "processor 0 processes within 60 s" in failed.why


@pytest.mark.parametrize("ahead_ms", [-86_400_000, 0, 86_400_000])
def test_a_canary_is_baked_by_the_clock_of_the_run_that_watches_it(ahead_ms: int) -> None:
    """Killed while it watched, on a machine with another clock: the bake is neither cut nor drawn out."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world, canaries=1, bake_s=100)

    def kill(world: BounceWorld) -> None:
        if book.back():
            world.calls.kill_at = world.calls.count + 1

    world.on_sleep = kill
    with pytest.raises(Killed):
        run(world, book, plan)
    world.on_sleep = world.calls.kill_at = None
    book.rows = [replace(row, back_ms=(row.back_ms or 0) + ahead_ms) for row in book.rows]
    began_ms = world.now_ms
    assert run(world, book, plan).end is RunEnd.DONE
    asked = sorted(r.asked_ms for r in world.requests.values())[1]
    assert began_ms + 100_000 <= asked <= began_ms + 115_000


def test_who_is_down_since_an_earlier_run_of_the_bounce_keeps_its_place() -> None:
    """A person re-executes it: what failed is tried again when it runs, and nobody else before."""
    world, book = BounceWorld(), Book()
    world.ends, world.down_after_failure = {"0-0": [NOT_STARTED]}, 10**9
    plan = plan_of(world, stop_after_failures=2, timeout_s=60)
    assert run(world, book, plan).end is RunEnd.STOPPED
    assert run(world, book, plan).end is RunEnd.STOPPED
    assert world.order() == ["0-0"]
    world.down_after_failure = 0
    assert run(world, book, plan).end is RunEnd.DONE


def test_a_restart_that_a_dead_am_had_taken_is_over_at_once_and_the_next_run_asks_anew() -> None:
    """Nobody goes on with it: its time-out would be waited for in vain."""
    world, book = BounceWorld(coordinator="samza"), Book()
    plan = plan_of(world, only=["0"])

    def replaced(world: BounceWorld) -> None:
        if any(request.statuses for request in world.requests.values()):
            world.deployment = "run-2"

    world.on_sleep = replaced
    (row,) = run(world, book, plan).rows
    assert row.status is UnitStatus.FAILED
    assert "over: deployment run-1 ended; run-2 runs" in row.why
    assert world.now_ms - BEGIN_MS < 30_000
    assert run(world, Book(), plan).end is RunEnd.DONE
    assert [request.deployment for request in world.requests.values()] == ["run-1", "run-2"]


def test_a_broker_that_is_away_for_a_while_ends_nothing() -> None:
    """What couldn't be asked is asked again under the same id."""
    for call in range(1, 60):
        world, book = BounceWorld(), Book()
        plan = plan_of(world, only=["0"])
        world.calls.breaks = {call: Unreachable("the broker", seen="no answer")}
        assert run(world, book, plan).end is RunEnd.DONE
        assert world.restarts() == {"0": 1}


def test_a_broker_may_be_away_again_and_again() -> None:
    """Each time counts by itself, and is told once."""
    world, book = BounceWorld(), Book()
    plan = plan_of(world, timeout_s=25)
    times: set[int] = set()

    def away(*_: object) -> None:
        number, ms = divmod(world.now_ms - BEGIN_MS, 32_000)
        if ms >= 12_000:
            times.add(number)
            raise Unreachable("the broker", seen="no answer")

    world.calls.before = away
    assert run(world, book, plan).end is RunEnd.DONE
    assert len(times) * 20 > 25
    assert sum("waiting for an answer" in line for line in book.lines) == len(times)


@pytest.mark.parametrize("waits_for", ["a request", "a lag", "the canary's bake"])
def test_a_broker_that_stays_away_ends_the_run_whatever_it_waits_for(waits_for: str) -> None:
    """After as long as a restart may take, and told once."""
    world, book, gone_ms = BounceWorld(), Book(), list[int]()

    def away(*_: object) -> None:
        begun = {
            "a request": world.requests,
            "a lag": world.started_ms,
            "the canary's bake": book.back(),
        }
        if begun[waits_for]:
            gone_ms.append(world.now_ms)
            assert gone_ms[-1] < gone_ms[0] + 26_000
            raise Unreachable("the broker", seen="no answer")

    world.calls.before = away
    with pytest.raises(Unreachable):
        run(world, book, plan_of(world, canaries=1, bake_s=600, timeout_s=25))
    assert gone_ms[-1] > gone_ms[0] + 25_000
    assert sum("waiting for an answer" in line for line in book.lines) == 1


@BOTH
def test_what_was_committed_while_no_run_looked_counts_in_the_one_that_goes_on(
    coordinator: CoordinatorKind,
) -> None:
    """Killed while it waited for commits, of an input that has been idle ever since."""
    world, book = BounceWorld(coordinator=coordinator), Book()
    plan = plan_of(world, only=["0"], lag_timeout_s=0)
    world.calls.kill_on = ("processing", 1)
    with pytest.raises(Killed):
        run(world, book, plan)
    world.calls.kill_on = None
    world.now_ms += 600_000
    world.idle_since_ms = world.now_ms - 590_000
    assert run(world, book, plan).end is RunEnd.DONE
    assert world.restarts() == {"0": 1}


def test_a_termination_gives_back_what_is_held_and_tells_what_goes_on() -> None:
    """One was committed, the other wasn't; a later run does the rest."""
    world, book = BounceWorld(crowded={"1-0"}), Book()

    def terminate(world: BounceWorld) -> None:
        if any(r.stop_ms is not None for r in world.requests.values()):
            raise Terminated

    world.on_sleep, plan = terminate, plan_of(world, at_once=2)
    with pytest.raises(Terminated):
        run(world, book, plan)
    assert world.released == ["1-0"]
    assert any("0-0: request" in line and "in flight" in line for line in book.lines)
    world.on_sleep, world.crowded = None, set()
    assert run(world, book, plan).end is RunEnd.DONE
    followed = [line for line in book.lines if line.endswith("was asked before: following it")]
    assert [line.partition(":")[0] for line in followed] == ["0-0"]
    assert world.restarts() == dict.fromkeys(world.at, 1)


@settings(max_examples=50)
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
    world.calls.count, world.calls.kill_after = 0, after
    for kill in (kill_at, again, None):
        world.calls.kill_at = None if kill is None else world.calls.count + kill
        try:
            result = run(world, book, plan)
        except Killed:
            world.now_ms += away_s * 1_000
            continue
        assert result.end is RunEnd.DONE
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert away_s > 100 or len(world.requests) == len(world.at)


def test_a_deployment_that_is_over_takes_its_requests_with_it() -> None:
    """Samza's AM died: what it had begun never ends, and is asked anew of the next."""
    world, book = BounceWorld(coordinator="samza", never_ends={"0-0"}), Book()
    plan = plan_of(world, timeout_s=30)
    assert run(world, book, plan).end is RunEnd.STOPPED
    world.deployment, world.never_ends = "run-2", set()
    assert run(world, book, plan).end is RunEnd.DONE
    assert world.order().count("0-0") == 2


def test_samza_s_am_never_counts_a_processor_to_its_end() -> None:
    """Its own rule, over a standby that fails each time and a person who tries on and on."""
    world, book = BounceWorld(coordinator="samza", ends={"0-0": [NOT_STARTED] * 12}), Book()
    plan = plan_of(world, only=["0-0"])
    for _ in range(12):
        assert run(world, book, plan).end is RunEnd.STOPPED
    count, last = 0, 0
    for request in world.requests.values():
        assert request.stop_ms is not None
        count = count + 1 if request.stop_ms - last < 300_000 else 1
        last = request.stop_ms
        assert count <= 4
    assert len(world.requests) == 12


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
    assert result.end is RunEnd.DONE
    assert world.order() == plain.order()
    assert world.now_ms == plain.now_ms


@pytest.mark.parametrize("leader_skew_ms", [-150_000, 150_000])
def test_an_old_incarnations_commits_dont_pass_for_the_new_ones(leader_skew_ms: int) -> None:
    """However long before or after them the leader dates its answer."""
    world, book = BounceWorld(slow={"0"}, leader_skew_ms=leader_skew_ms), Book()
    result = run(world, book, plan_of(world, only=["0"]))
    assert result.end is RunEnd.STOPPED
    assert "no input offset grew" in result.rows[0].why


def test_a_hold_that_expires_before_its_commit_fails_that_one_alone() -> None:
    """The coordinator was faster: the commit is refused, and the next look tells why."""
    world, book = BounceWorld(hold_ms=1), Book()
    result = run(world, book, plan_of(world, stop_after_failures=9))
    assert result.end is RunEnd.STOPPED
    assert {r.processor for r in result.are(UnitStatus.FAILED)} == {"0-0", "1-0"}
    assert all("not committed in time" in r.why for r in result.are(UnitStatus.FAILED))
    assert world.restarts() == {}
