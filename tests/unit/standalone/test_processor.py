"""What a standalone processor does next in its group: registers, leads, joins; one scene for a rule."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import pytest
from members import (
    SETTINGS,
    A,
    B,
    C,
    at,
    container,
    expect,
    group,
    model,
    planned,
    said,
    start,
    stop,
    stopped,
)

from samza_dagster.model import JobModel
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Member, Running
from samza_dagster.standalone.processor import (
    EndBarrier,
    GiveUp,
    JoinBarrier,
    Publish,
    Register,
    ReportRunning,
    Round,
    StartWork,
    decides,
    step,
)
from tests.rig.standalone_groups import runs

pytestmark = pytest.mark.unit


def test_one_that_is_not_registered_registers_once_it_runs_nothing() -> None:
    """After an expired session its work ends first: a new node would promise that it runs none."""
    state = rules.expired(at(A, work=runs(container("a", "1"))))
    state, commands = step(state, group(), 110, planned)
    assert commands == (stop("a"),)
    assert step(state, group(), 111, planned)[1] == ()
    assert step(stopped(state), group(), 112, planned)[1] == (Register(),)


def test_a_leader_publishes_once_its_members_have_been_the_same_for_the_debounce_time() -> None:
    """Each change begins it anew; the others do nothing."""
    state, commands = step(at(A), group(A, B), 100, planned)
    assert (commands, rules.wake_ms(state)) == ((), 120)
    state, commands = step(state, group(A, B, C), 119, planned)
    assert (commands, rules.wake_ms(state)) == ((), 139)
    _, commands = step(state, group(A, B, C), 139, planned)
    assert commands == (Publish(1, model(a="a", b="b", c="c"), 0),)
    assert step(at(B), group(A, B), 500, planned)[1] == ()


def test_no_version_while_two_have_one_id_and_the_later_gives_up_after_two_sessions() -> None:
    """It names who has it."""
    twice = Member("0009", "b", "h9")
    state, _ = step(at(A), group(A, B, twice), 100, planned)
    assert step(state, group(A, B, twice), 200, planned)[1] == ()
    later = at(twice, registered_ms=100)
    assert step(later, group(A, B, twice), 159, planned)[1] == ()
    _, (given_up,) = step(later, group(A, B, twice), 160, planned)
    assert isinstance(given_up, GiveUp)
    assert "b is taken by h1" in given_up.why


def test_who_gets_tasks_joins_at_once_and_runs_on_and_they_start_once_all_have_agreed() -> None:
    """In a container of their own, whose process may be launched meanwhile."""
    before, added = container("b", "2"), container("b_1", "1")
    seen = group(A, B, version=2, a="3", b="1 2")
    state, commands = step(at(B, work=runs(before), joined=1), seen, 100, planned)
    assert commands == (JoinBarrier(2), expect(added))
    assert step(state, seen, 105, planned)[1] == ()
    agreed = replace(seen, barrier=Barrier(BarrierState.DONE))
    state, commands = step(state, agreed, 110, planned)
    assert commands == (start(added), expect())
    assert state.work.running == (before, added)


def test_work_starts_once_all_have_agreed() -> None:
    """Not while the barrier is new, and not what a version gives that was given up."""
    state = at(B, joined=2)
    for barrier, commands in (
        (BarrierState.NEW, ()),
        (BarrierState.TIMED_OUT, ()),
        (BarrierState.DONE, (start(container("b", "2")),)),
    ):
        seen = group(A, B, version=2, state=barrier, a="1", b="2")
        assert step(state, seen, 100, planned)[1] == commands


def test_a_restart_within_the_debounce_time_interrupts_nobody_else() -> None:
    """The leader never makes a version without the one that restarts: the next one has the same tasks for all, and
    those of the others go on over it."""
    back = Member("0009", "b", "h1")
    leader = at(A, counted=(A, B), joined=1, work=runs(container("a", "a")), running=Running(1))
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    state, _ = step(leader, settled, 100, planned)
    for now_ms, members in ((101, (A,)), (119, (A, back))):
        seen = said(state, replace(settled, members=members))
        state, commands = step(state, seen, now_ms, planned)
        assert commands == ()
    came = said(state, replace(settled, members=(A, back)))
    state, commands = step(state, came, 119 + SETTINGS.debounce_ms, planned)
    assert commands == (Publish(2, planned(came), 1),)
    seen = said(state, group(A, back, version=2, a="a", b="b"))
    state, commands = step(state, seen, 140, planned)
    assert commands == (JoinBarrier(2),)
    agreed = group(A, back, version=2, state=BarrierState.DONE, joined="a b", a="a", b="b")
    assert step(state, agreed, 141, planned)[1] == (ReportRunning(Running(2, silent_ms=0)),)


def test_who_came_after_a_version_was_published_is_not_awaited_and_joins_the_next() -> None:
    """Unless it is named: then it came back under its id."""
    seen = group(A, B, C, version=2, a="1", b="2")
    state, commands = step(at(C, found=None), seen, 100, planned)
    assert commands == ()
    again = group(A, B, C, version=3, a="1", b="2", c="3")
    assert step(state, again, 110, planned)[1] == (JoinBarrier(3), expect(container("c", "3")))
    back = step(at(B, found=None), seen, 100, planned)[1]
    assert back == (JoinBarrier(2), expect(container("b", "2")))


def test_a_leader_ends_the_barrier_when_all_have_come_or_the_time_is_over() -> None:
    """Then it tries anew, after the debounce time."""
    state, _ = step(at(A), group(A, B), 100, planned)
    state, _ = step(state, group(A, B), 120, planned)
    waiting = group(A, B, version=1, joined="a", a="a", b="b")
    state, commands = step(state, waiting, 130, planned)
    assert commands[0] == JoinBarrier(1)
    complete = group(A, B, version=1, joined="a b", a="a", b="b")
    assert step(state, complete, 140, planned)[1] == (EndBarrier(1, BarrierState.DONE),)
    late, commands = step(state, waiting, 160, planned)
    assert commands == (EndBarrier(1, BarrierState.TIMED_OUT),)
    given_up = group(A, B, version=1, state=BarrierState.TIMED_OUT, joined="a", a="a", b="b")
    _, (published,) = step(late, given_up, 180, planned)
    assert isinstance(published, Publish)
    assert published.version == 2


NEW, DONE, TIMED_OUT = BarrierState.NEW, BarrierState.DONE, BarrierState.TIMED_OUT
_OF_TWO = group(A, B, version=2, joined="a", a="a", b="b")


@pytest.mark.parametrize(
    ("seen", "now_ms", "plan_ms"),
    [
        (group(A, B, version=1, state=DONE, a="a", b="b"), 139, None),
        (group(A, B, version=1, state=DONE, a="a", b="b"), 140, 160),
        (_OF_TWO, 139, None),
        (_OF_TWO, 140, 160),
        (replace(_OF_TWO, barrier=Barrier(DONE)), 139, None),
        (replace(_OF_TWO, barrier=Barrier(TIMED_OUT)), 139, None),
        (replace(_OF_TWO, barrier=Barrier(TIMED_OUT)), 140, 160),
        (replace(_OF_TWO, barrier=None), 139, None),
        (replace(_OF_TWO, barrier=None), 140, 160),
        (group(A, B, version=3, a="a", b="b"), 130, 150),
    ],
)
def test_a_leader_whose_version_comes_to_nothing_plans_anew_after_the_debounce_time(
    seen: GroupView, now_ms: int, plan_ms: int | None
) -> None:
    """Nobody has seen it, its time is over, its barrier is gone or was given up, or another has published since."""
    leader = at(A, heard_ms=now_ms, counted=(A, B), served=(A, B), joined=2, round=Round(2, 140))
    state, _ = step(leader, seen, now_ms, planned)
    assert state.plan_ms == plan_ms
    has_held = seen.version == 2 and seen.barrier == Barrier(DONE)
    assert (state.round is None) == (plan_ms is not None or has_held)


def test_a_version_is_not_agreed_on_when_somebody_has_come_back_elsewhere() -> None:
    """Its standby could be beside an active there; the next version is for where all are now."""
    state, _ = step(at(A), group(A, B), 100, planned)
    state, _ = step(state, group(A, B), 120, planned)
    elsewhere = Member("0009", "b", "h0")
    seen = group(A, elsewhere, version=1, joined="a b", a="a", b="b")
    state, commands = step(state, seen, 125, planned)
    assert commands[0] == JoinBarrier(1)
    _, (published,) = step(state, seen, 145, planned)
    assert isinstance(published, Publish)


def test_a_leader_whose_newest_version_is_for_other_members_plans_anew() -> None:
    """An older leader's last version gave tasks to one who is gone: nobody else would see to them."""
    seen = group(B, version=3, state=BarrierState.DONE, a="1", b="2")
    state, _ = step(
        at(B, counted=(B,), joined=3, work=runs(container("b", "2"))), seen, 100, planned
    )
    assert state.plan_ms == 100 + SETTINGS.debounce_ms


def _as_it_is(group: GroupView, staying: Set[str]) -> JobModel:
    del staying
    assert group.model is not None
    return group.model


def test_a_leader_plans_anew_where_the_newest_version_can_no_longer_be_followed() -> None:
    """Somebody has deleted or overwritten its barrier, or an older version is the newest that is left."""
    seen = group(A, B, version=3, state=BarrierState.DONE, a="1", b="2")
    leader = at(A, counted=(A, B), served=(A, B), joined=3, work=runs(container("a", "1")))
    assert step(leader, seen, 100, planned)[0].plan_ms is None
    for wrecked in (replace(seen, barrier=None), replace(seen, version=2, highest=3)):
        state, _ = step(leader, wrecked, 100, planned)
        assert state.plan_ms == 100 + SETTINGS.debounce_ms
        _, commands = step(state, wrecked, 100 + SETTINGS.debounce_ms, _as_it_is)
        assert [each.version for each in commands if isinstance(each, Publish)] == [4]


def test_a_leader_asks_its_grouper_again_and_publishes_only_what_is_spread_better() -> None:
    """Who has joined has standbys by then, and may get actives. It asks once all run what they are given."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="1 2", b="")
    leader = at(A, counted=(A, B), joined=1, work=runs(container("a", "1 2")))
    assert step(leader, settled, 100, planned)[0].probe_ms is None
    settled = replace(settled, running={each.sequence: Running(1) for each in (A, B)})
    state, _ = step(leader, settled, 100, planned)
    probe_ms = 100 + SETTINGS.probe_ms
    assert state.probe_ms == probe_ms
    assert decides(state, probe_ms)
    for no_better in (model(a="", b="1 2"), model(a="2 1", b="")):
        again, commands = step(state, settled, probe_ms, lambda *_, it=no_better: it)
        assert (commands, again.plan_ms, again.probe_ms) == ((), None, None)
    partial = replace(settled, is_whole=False)
    assert step(state, partial, probe_ms, planned)[0].probe_ms == probe_ms
    _, (published,) = step(state, settled, probe_ms, lambda *_: model(a="1", b="2"))
    assert isinstance(published, Publish)
    assert published.version == 2


def test_a_plan_that_fails_keeps_the_last_version_and_is_said() -> None:
    """Whatever its grouper raises, be it another package's: the leader goes on, and tries again."""

    def failing(group: GroupView, staying: Set[str]) -> JobModel:
        raise TypeError("unexpected keyword argument 'actives_only'")

    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="1", b="2")
    leader = at(
        A, counted=(A, B), joined=1, plan_ms=100, work=runs(container("a", "1")), running=Running(1)
    )
    state, (trouble,) = step(leader, said(leader, settled), 100, failing)
    assert isinstance(trouble, ReportRunning)
    assert "actives_only" in trouble.running.trouble
    assert state.plan_ms == 100 + rules.PINS_WAIT_MS
    again, (published, ended) = step(state, said(state, settled), 100 + rules.PINS_WAIT_MS, planned)
    assert isinstance(published, Publish)
    assert isinstance(ended, ReportRunning)
    assert (ended.running.trouble, again.trouble) == ("", "")


def test_whose_node_is_gone_ends_while_its_session_lives() -> None:
    """Somebody has deleted or overwritten it: others get its tasks."""
    _, (given_up,) = step(at(A), group(B, C), 100, planned)
    assert isinstance(given_up, GiveUp)
    assert "its node 0000 was deleted" in given_up.why
    assert step(rules.expired(at(A)), group(B, C), 100, planned)[1] == (Register(),)


def test_nobody_goes_back_to_an_older_version_than_it_has_joined() -> None:
    """Whatever its node says: what it gave up for that may be another's."""
    older = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="1", b="2")
    gave_up = at(B, joined=2)
    assert step(gave_up, older, 100, planned)[1] == ()


def test_a_leader_waits_for_a_sessions_time_after_one_of_samzas_own_has_left() -> None:
    """That one stops its work a session's time after it was cut off: perhaps when its session is long over. Whatever
    else changes meanwhile."""
    java = Member("0000", "java", "h9", holds_standbys=False)
    state, _ = step(at(A), group(java, A, B, version=1, java="1", a="2", b="3"), 100, planned)
    state, _ = step(state, group(A, B, version=1, java="1", a="2", b="3"), 105, planned)
    assert state.plan_ms == 105 + SETTINGS.session_ms
    state, _ = step(state, group(A, B, C, version=1, java="1", a="2", b="3"), 110, planned)
    assert state.plan_ms == 105 + SETTINGS.session_ms
    state, _ = step(state, group(A, version=1, java="1", a="2", b="3"), 130, planned)
    assert state.plan_ms == 130 + SETTINGS.debounce_ms


def test_who_registers_takes_those_that_are_gone_for_samzas_own() -> None:
    """It never saw them, nor whoever had its own id before: their work may still run. So does one that registers again:
    what it knew is over with its session."""
    fresh = rules.registered(rules.expired(at(A)), A.sequence, 100)
    for gone in (group(A, version=1, b="1"), group(A, version=1, a="1")):
        state, _ = step(fresh, gone, 100, planned)
        assert state.plan_ms == 100 + SETTINGS.session_ms
    state, _ = step(fresh, group(A, B, version=1, b="1"), 100, planned)
    assert state.plan_ms == 100 + SETTINGS.debounce_ms


def test_what_starts_containers_comes_after_a_leaders_writes() -> None:
    """When a write fails the step is repeated: containers that it had started would run twice."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    leader = at(A, counted=(A, B), joined=1, plan_ms=100)
    _, commands = step(leader, settled, 100, planned)
    assert [type(command) for command in commands] == [Publish, StartWork]
