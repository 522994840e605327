"""What may be bounced next: order, limits, canary, budget, pacing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samza_dagster.client.stop_budget import StopBudget
from samza_dagster.client.views import ActionView, HostView, JobView
from samza_dagster.errors import Refused
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.operations.schedule import (
    UNDER_WAY,
    OperationPhase,
    UnitStatus,
    what_next,
)
from samza_dagster.orchestration.operations.schedule import Position as AnyPosition
from samza_dagster.orchestration.plans.order import (
    CONTAINERS,
    HOSTS,
    Batch,
    Schedule,
    busy_groups,
    order_of,
    paced,
)
from tests.rig.job_views import job_view

pytestmark = pytest.mark.unit
Position = partial(AnyPosition, group=group_of)
DEMO = {"0": "h1", "1": "h2", "0-0": "h3", "1-0": "h4"}


def job(at: dict[str, str], states: dict[str, str] | None = None, lost: str = "") -> JobView:
    hosts = [HostView(h, "lost" if h == lost else "alive") for h in at.values()]
    return job_view(at, hosts, states)


def names(units: tuple[Batch, ...]) -> list[str]:
    return [unit.name for unit in units]


def test_standbys_go_before_actives_and_hosts_with_few_containers_first() -> None:
    """Of one host by number: 2 comes before 10."""
    at = {"2": "b", "10": "b", "3": "a", "2-0": "a", "10-0": "c", "3-0": "c", "4-0": "c"}
    order = order_of(job(at), CONTAINERS)
    assert names(order) == ["2-0", "3-0", "4-0", "10-0", "3", "2", "10"]


def test_a_host_is_one_unit_with_its_standbys_first() -> None:
    """Hosts of standbys alone come first."""
    at = {"0": "a", "1-0": "a", "1": "b", "2": "b", "0-0": "c", "2-0": "c"}
    order = order_of(job(at), HOSTS)
    assert [(u.name, u.members) for u in order] == [
        ("c", ("0-0", "2-0")),
        ("a", ("1-0", "0")),
        ("b", ("1", "2")),
    ]


def test_only_and_skip_name_processors_or_hosts() -> None:
    """A name that isn't there is refused: it would be a typing error in a schedule."""
    assert names(order_of(job(DEMO), CONTAINERS, only=["h1", "1-0"])) == ["1-0", "0"]
    assert names(order_of(job(DEMO), CONTAINERS, skip=["h1", "1-0"])) == ["0-0", "1"]
    with pytest.raises(Refused, match="h9"):
        order_of(job(DEMO), CONTAINERS, skip=["h9"])
    with pytest.raises(Refused, match="none is left"):
        order_of(job(DEMO), CONTAINERS, only=["0"], skip=["h1"])


def test_a_container_that_does_not_run_is_refused_and_one_that_leaves_is_left_out() -> None:
    """The refusal says which, and how to go on without it."""
    with pytest.raises(Refused, match=r"1 is starting.*skip 1"):
        order_of(job(DEMO, {"1": "starting"}), CONTAINERS)
    assert "1" not in names(order_of(job(DEMO, {"1": "leaving"}), CONTAINERS))
    assert len(order_of(job(DEMO, dict.fromkeys(DEMO, "last-seen")), CONTAINERS)) == 4


def test_what_somebody_else_does_keeps_a_group_from_being_touched() -> None:
    """An action, a queued request, a member that is down, a lost host; not our own requests."""
    view = job({**DEMO, "2": "h5", "3": "h6"}, {"0-0": "starting"}, lost="h5")
    acting = (ActionView("a", "1", "h9", "held", 0), ActionView("b", "3", "LAST_SEEN", "held", 0))
    view = view.__class__(**{**vars(view), "actions": acting})
    busy = busy_groups(view, ours=["b"])
    assert set(busy) == {"0", "1", "2"}
    assert busy["0"] == "0-0 is starting"
    assert busy["2"] == "host h5 is lost"


def test_whoever_has_spent_half_of_what_samza_s_am_lets_pass_waits_and_the_others_go_on() -> None:
    """Until its row is over; on our coordinator nothing is counted."""
    order = order_of(job(DEMO), CONTAINERS)
    statuses = dict.fromkeys(DEMO, UnitStatus.WAITING)
    budgets = {
        p: StopBudget(p, counted, free_at_ms=9_000) for p, counted in (("0-0", 4), ("1-0", 3))
    }
    spent = paced(replace(job(DEMO), coordinator="samza", stop_budgets=budgets))
    assert list(spent) == ["0-0"]
    todo = what_next(order, Schedule(at_once=4), Position(statuses, paced=spent), 8_999)
    assert (todo.ask, todo.until_ms) == (("1-0", "0"), 9_000)
    assert todo.because == (
        "0-0 waits until 1970-01-01 00:00:09 UTC: 4 of the 8 stops in a row that Samza's AM lets pass are spent"
    )
    assert what_next(order, Schedule(), Position(statuses, paced=spent), 9_000).ask == ("0-0",)
    assert paced(job(DEMO)) == {}


JOBS = st.dictionaries(
    st.sampled_from([f"{g}{s}" for g in range(5) for s in ("", "-0", "-1")]),
    st.sampled_from(["h1", "h2", "h3"]),
    min_size=1,
)
MOVES = st.lists(
    st.tuples(
        st.integers(0, 50), st.sampled_from(["back", "up", "behind", "fail", "down", "stuck"])
    )
)


@example(
    at={"0": "h1", "1": "h1"},
    unit=CONTAINERS,
    at_once=1,
    canaries=0,
    stop_after=1,
    moves=[(0, "up"), (0, "behind")],
)
@given(
    at=JOBS,
    unit=st.sampled_from([CONTAINERS, HOSTS]),
    at_once=st.integers(1, 5),
    canaries=st.integers(0, 3),
    stop_after=st.integers(1, 4),
    moves=MOVES,
)
def test_the_limits_hold_in_every_history(
    at: dict[str, str],
    unit: str,
    at_once: int,
    canaries: int,
    stop_after: int,
    moves: list[tuple[int, str]],
) -> None:
    """K at once with those that failed and are down, never two of a group, the canary alone,

    nothing asked after the budget is spent, nobody asked twice; and it ends. A request that was
    answered is never stuck, and who was up and then tells that it is behind has its place again.
    """
    order = order_of(job(at), unit)
    limits = Schedule(unit, at_once, min(canaries, len(order)), 10, stop_after)
    canary = {p for u in order[: limits.canaries] for p in u.members}
    statuses = {p: UnitStatus.WAITING for u in order for p in u.members}
    back: dict[str, int] = {}
    down_until: dict[str, int] = {}
    behind: set[str] = set()
    judged: bool | None = None
    now = 0
    told = list(moves)
    for _ in range(1_000):
        down = {p: f"{p} is starting" for p, until in down_until.items() if now < until}
        todo = what_next(order, limits, Position(statuses, back, judged, down=down), now)
        if todo.phase is OperationPhase.ENDED:
            break
        bad = [p for p, s in statuses.items() if s in (UnitStatus.FAILED, UnitStatus.STUCK)]
        if todo.ask:
            assert len(bad) < stop_after
            assert not canary & set(bad)
            assert all(statuses[p] is UnitStatus.WAITING for p in todo.ask)
            assert not {group_of(p) for p in todo.ask} & {group_of(p) for p in bad}
        if set(todo.ask) - canary and canary:
            assert all(statuses[p] is UnitStatus.BACK for p in canary)
            assert judged
        for p in todo.ask:
            statuses[p] = UnitStatus.IN_FLIGHT
        places = [p for p, s in statuses.items() if s in (UnitStatus.IN_FLIGHT, UnitStatus.STUCK)]
        assert len(set(places) - behind) <= at_once
        assert not todo.ask or len(places) + len(down) <= at_once
        touched = [p for p, s in statuses.items() if s in (UnitStatus.STUCK, *UNDER_WAY)]
        assert len({group_of(p) for p in touched}) == len(touched)
        if unit == HOSTS:
            flown = {p for p in places if statuses[p] is UnitStatus.IN_FLIGHT}
            assert len({at[p] for p in flown - behind}) <= 1
        if todo.phase is OperationPhase.JUDGING:
            assert now >= max(back[p] for p in canary) + 10
            judged = True
        flying = [p for p, s in statuses.items() if s in UNDER_WAY]
        if flying:
            index, how = told.pop(0) if told else (0, "back")
            p = flying[index % len(flying)]
            if how in ("behind", "stuck") and statuses[p] is UnitStatus.UP:
                behind.add(p)
            answered = statuses[p] is UnitStatus.UP or p in behind
            ends = {
                "back": UnitStatus.BACK,
                "up": UnitStatus.UP,
                "behind": UnitStatus.IN_FLIGHT,
                "stuck": UnitStatus.IN_FLIGHT if answered else UnitStatus.STUCK,
            }
            statuses[p] = ends.get(how, UnitStatus.FAILED)
            if how == "down":
                down_until[p] = now + 50
            if how == "back":
                back[p] = now
        now += 7
    else:
        raise AssertionError("it never ends")
    if not any(s in (UnitStatus.FAILED, UnitStatus.STUCK) for s in statuses.values()):
        assert set(statuses.values()) == {UnitStatus.BACK}


def chosen(
    order: tuple[Batch, ...], limits: Schedule, at: AnyPosition, now: int
) -> tuple[OperationPhase, tuple[str, ...], int | None, bool]:
    """Phase, whom to ask, until when nobody is, and whether it is over; read from the rules."""

    def of(*statuses: UnitStatus) -> set[str]:
        return {p for p, status in at.statuses.items() if status in statuses}

    flying, bad = of(*UNDER_WAY), of(UnitStatus.FAILED, UnitStatus.STUCK)
    held, waiting = of(UnitStatus.IN_FLIGHT, UnitStatus.STUCK), of(UnitStatus.WAITING)
    canary = {p for batch in order[: limits.canaries] for p in batch.members}
    idle = OperationPhase.FINISHING if flying else OperationPhase.ENDED
    if canary & bad or len(bad) >= limits.stop_after:
        return idle, (), None, True
    if not waiting:
        return idle, (), None, False
    pool = [p for batch in order for p in batch.members]
    if canary and of(*UnitStatus) - waiting - of(UnitStatus.GONE) <= canary:
        if canary & (waiting | flying):
            pool = [p for p in pool if p in canary]
        elif at.judged is False:
            return idle, (), None, True
        elif at.judged is None:
            baked = max(at.back_at_ms.get(p, 0) for p in canary) + limits.bake_ms
            is_baked = now >= baked
            phase = OperationPhase.JUDGING if is_baked else OperationPhase.BAKING
            return phase, (), None if is_baked else baked, False
    left = {p for p in waiting if group_of(p) not in {group_of(other) for other in bad}}
    if limits.unit == HOSTS:
        busy_hosts = (b.members for b in order if {*b.members} & (left | of(UnitStatus.IN_FLIGHT)))
        pool = [p for p in next(busy_hosts, ()) if p in pool]
    free = limits.at_once - len(held | at.down.keys() | at.unsettled.keys())
    touched = {group_of(p) for p in bad | flying}
    ask, until, is_one_left = list[str](), list[int](), False
    for p in pool:
        if p not in waiting or group_of(p) in touched:
            continue
        is_one_left = True
        free_at_ms = (at.paced[p].free_at_ms or 0) if p in at.paced else 0
        if group_of(p) in at.busy:
            continue
        if free_at_ms > now:
            until.append(free_at_ms)
        elif len(ask) < free:
            ask.append(p)
            touched.add(group_of(p))
    if not ask and not flying and (len(held) >= limits.at_once or not is_one_left):
        return OperationPhase.ENDED, (), None, False
    is_full_of_down = not ask and free <= 0 and (at.down.keys() | at.unsettled.keys()) - held
    until_ms = None if is_full_of_down else min(until, default=None)
    return OperationPhase.WORKING, tuple(ask), until_ms, False


@given(
    at=JOBS,
    limits=st.builds(
        *(Schedule, st.sampled_from([CONTAINERS, HOSTS]), st.integers(1, 4), st.integers(0, 2)),
        *(st.just(10), st.integers(1, 9)),
    ),
    judged=st.sampled_from([None, True, False]),
    data=st.data(),
)
def test_everybody_is_asked_who_may_be_and_nobody_else(
    at: dict[str, str], limits: Schedule, judged: bool | None, data: st.DataObject
) -> None:
    """Wherever an operation stands; and nothing begins or ends before it is known who died."""
    order = order_of(job(at), limits.unit)
    some = st.sets(st.sampled_from(sorted(at)), max_size=3)
    settled, unsettled = (data.draw(some), data.draw(st.just(set[str]()) | some))
    many = [UnitStatus.WAITING] * 4 + [UnitStatus.BACK] * 2
    statuses = {p: data.draw(st.sampled_from([*many, *UnitStatus])) for p in at}
    frees = data.draw(st.dictionaries(st.sampled_from(sorted(at)), st.integers(99, 101)))
    position = Position(
        statuses,
        {p: data.draw(st.integers(89, 91)) for p in at if statuses[p] is UnitStatus.BACK},
        judged,
        busy={group_of(p): f"{p} is moved" for p in data.draw(some)},
        down={p: f"{p} is starting" for p in settled},
        unsettled={p: f"{p} is another" for p in unsettled},
        paced={p: StopBudget(p, 4, free_at_ms=ms) for p, ms in frees.items()},
    )
    phase, ask, until_ms, is_over = chosen(order, limits, position, 100)
    if unsettled and (ask or phase is OperationPhase.ENDED):
        phase = OperationPhase.FINISHING if phase is OperationPhase.ENDED else phase
        ask, until_ms, is_over = (), None, False
    todo = what_next(order, limits, position, 100)
    assert (todo.phase, todo.ask, todo.until_ms, todo.is_over) == (phase, ask, until_ms, is_over)
    assert todo.ask or todo.because or todo.phase is OperationPhase.WORKING


def test_a_bounce_whose_places_are_held_by_who_is_down_says_so() -> None:
    """And ends at once where nobody is left to ask, or a request without an end holds the place."""
    order = order_of(job({**DEMO, "2": "h5"}), CONTAINERS, only=["0", "1", "2"])
    down, limits = {"0": "0 is starting"}, Schedule(stop_after=3)
    statuses = {"0": UnitStatus.FAILED, "1": UnitStatus.WAITING, "2": UnitStatus.BACK}
    todo = what_next(order, limits, Position(statuses, down=down), 0)
    assert (todo.phase, todo.ask) == (OperationPhase.WORKING, ())
    assert (
        todo.because
        == "0 is starting: a container that failed or died keeps its place until it runs"
    )
    assert what_next(order, limits, Position(statuses), 0).ask == ("1",)
    over = {"0": UnitStatus.FAILED, "1": UnitStatus.GONE, "2": UnitStatus.BACK}
    assert what_next(order, limits, Position(over, down=down), 0).phase is OperationPhase.ENDED
    stuck = {**statuses, "2": UnitStatus.STUCK}
    assert what_next(order, limits, Position(stuck, down=down), 0).phase is OperationPhase.ENDED


def test_a_host_that_is_left_alone_for_who_failed_keeps_no_other_host_waiting() -> None:
    """All that waits there has a group whose other member failed."""
    order = order_of(job({"0": "h1", "1": "h2", "0-0": "h3"}), HOSTS)
    statuses = {"0-0": UnitStatus.FAILED, "0": UnitStatus.WAITING, "1": UnitStatus.WAITING}
    limits = Schedule(HOSTS, stop_after=2)
    assert what_next(order, limits, Position(statuses), 0).ask == ("1",)


def test_the_others_wait_for_bake_and_judge() -> None:
    """A judge's no ends it, whatever the budget."""
    order = order_of(job(DEMO), CONTAINERS)
    limits = Schedule(at_once=2, canaries=1, bake_ms=60_000, stop_after=9)
    statuses = dict.fromkeys(DEMO, UnitStatus.WAITING) | {"0-0": UnitStatus.BACK}
    at = Position(statuses, {"0-0": 1_000})
    todo = what_next(order, limits, at, 2_000)
    assert (todo.phase, todo.until_ms) == (OperationPhase.BAKING, 61_000)
    assert what_next(order, limits, at, 61_000).phase is OperationPhase.JUDGING
    no = Position(statuses, {"0-0": 1_000}, judged=False)
    assert what_next(order, limits, no, 61_000).phase is OperationPhase.ENDED
    yes = Position(statuses, {"0-0": 1_000}, judged=True)
    assert what_next(order, limits, yes, 61_000).ask == ("1-0", "0")


def test_a_container_that_left_the_job_before_the_canary_does_not_switch_it_off() -> None:
    """Whoever is gone was never asked: the canary still goes alone."""
    order = order_of(job(DEMO), CONTAINERS)
    statuses = dict.fromkeys(DEMO, UnitStatus.WAITING) | {"1": UnitStatus.GONE}
    limits = Schedule(at_once=4, canaries=1)
    assert what_next(order, limits, Position(statuses), 0).ask == ("0-0",)
    statuses["0-0"] = UnitStatus.BACK
    assert (
        what_next(order, limits, Position(statuses, {"0-0": 0}), 1).phase is OperationPhase.JUDGING
    )


def test_places_that_stay_taken_end_it() -> None:
    """A request without an end may still stop its container: its place isn't given away."""
    order = order_of(job(DEMO), CONTAINERS)
    statuses = dict.fromkeys(DEMO, UnitStatus.WAITING) | {"0-0": UnitStatus.STUCK}
    todo = what_next(order, Schedule(at_once=1, stop_after=5), Position(statuses), 0)
    assert todo.phase is OperationPhase.ENDED
    assert "without an end" in todo.because
