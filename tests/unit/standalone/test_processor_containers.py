"""When a standalone processor starts and stops its containers: one scene for a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from members import (
    SETTINGS,
    A,
    B,
    at,
    at_work,
    container,
    expect,
    group,
    is_there,
    planned,
    said,
    start,
    stop,
    stopped,
)

from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import Barrier, BarrierState, Running
from samza_dagster.standalone.processor import (
    GiveUp,
    JoinBarrier,
    ReportRunning,
    Settings,
    step,
)
from tests.rig.standalone_groups import runs

pytestmark = pytest.mark.unit


def test_who_gives_up_tasks_stops_their_container_before_it_joins_and_those_that_stay_start_at_once() -> (
    None
):
    """A barrier is where everybody waits for those who give something up; nobody else may own what stays. It runs
    on until the process is warm that goes on with that."""
    rest = container("b_1", "1")
    seen = group(A, B, version=2, a="2", b="1")
    state = at(B, work=runs(container("b", "1", "2")), joined=1, settings=Settings())
    state, commands = step(state, seen, 100, planned)
    assert commands == (expect(rest),)
    assert step(state, seen, 105, planned)[1] == ()
    state, commands = step(is_there(state, "b_1", 106), seen, 106, planned)
    assert commands == (), "it warms itself"
    assert rules.wake_ms(state) == 4_106
    state, commands = step(state, seen, 4_106, planned)
    assert commands == (stop("b"),)
    state, commands = step(stopped(state), seen, 4_109, planned)
    assert commands == (JoinBarrier(2), start(rest), expect())


def test_a_container_whose_successor_is_not_warm_in_time_stops_nevertheless() -> None:
    """A barrier may wait for that."""
    seen = group(A, B, version=2, a="2", b="1")
    state = at(B, work=runs(container("b", "1", "2")), joined=1, settings=Settings())
    state, _ = step(state, seen, 100, planned)
    state, commands = step(state, seen, 8_099, planned)
    assert commands == ()
    assert rules.wake_ms(state) == 8_100
    assert step(state, seen, 8_100, planned)[1] == (stop("b"),)


def test_a_container_runs_on_for_a_quarter_of_the_barriers_time_at_most() -> None:
    """With a consensus time-out of 3 s every barrier was given up while a container waited for its successor."""
    seen = group(A, B, version=2, a="2", b="1")
    few = replace(Settings(), consensus_ms=3_000)
    state = at(B, work=runs(container("b", "1", "2")), joined=1, settings=few)
    state, _ = step(state, seen, 100, planned)
    state, commands = step(is_there(state, "b_1", 101), seen, 849, planned)
    assert commands == ()
    assert step(state, seen, 850, planned)[1] == (stop("b"),)


def test_a_version_that_comes_before_a_container_has_ended_may_leave_it_running() -> None:
    """It was to give a task up, and has it again."""
    both = container("b", "1", "2")
    state = at(B, work=runs(both), joined=1)
    state, _ = step(state, group(A, B, version=2, a="2", b="1"), 100, planned)
    state, commands = step(state, group(A, B, version=3, a="3", b="1 2"), 105, planned)
    assert commands == (JoinBarrier(3), expect())
    assert state.work.wanted == (both,)


def test_a_change_among_standbys_leaves_the_active_tasks_running() -> None:
    """And the reverse: who gives up standby tasks stops these alone, and starts these alone, once active tasks that the
    version moves to another processor, maybe on the same machine, have had the time to start."""
    active, after = container("b", "2"), container("b-1", "standby3")
    state = at(B, work=runs(active, container("b-0", "standby1")), joined=1)
    seen = group(A, B, version=2, a="1", b="2 standby3")
    state, commands = step(state, seen, 100, planned)
    assert commands == (stop("b-0"),)
    state = stopped(state)
    assert state.work.running == (active,)
    state, commands = step(state, seen, 105, planned)
    assert commands == (JoinBarrier(2),)
    agreed = group(A, B, version=2, state=BarrierState.DONE, a="1", b="2 standby3")
    state, commands = step(state, agreed, 110, planned)
    assert (commands, rules.wake_ms(replace(state, settings=Settings()))) == ((), 3_110)
    state, commands = step(state, agreed, 3_110, planned)
    assert commands == (start(after),)
    assert state.work.silent_ms == 0


def test_work_has_ended_before_the_session_can_be_over() -> None:
    """By the processor's own clock, from when ZooKeeper answered last."""
    state = at(B, work=runs(container("b", "2")), joined=1)
    assert rules.wake_ms(state) == 120
    assert step(state, None, 119, planned)[1] == ()
    state, commands = step(state, None, 120, planned)
    assert commands == (stop("b"),)
    assert step(stopped(state), None, 125, planned)[1] == ()


def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    """As the session does: what came late was true then."""
    settled = group(A, B, version=1, state=BarrierState.DONE, a="1", b="2")
    state = at(B, work=runs(container("b", "2")), joined=1, running=Running(1))
    state, _ = step(state, settled, 115, planned, asked_ms=105)
    assert rules.wake_ms(state) == 125
    assert step(state, settled, 130, planned, asked_ms=106)[1] == (stop("b"),)


def test_a_processor_reports_what_it_runs_and_how_long_its_tasks_were_silent() -> None:
    """Once for each version, also when its work is the same; silent from the end of their container till they are at work."""
    seen = group(A, B, version=2, a="2", b="1")
    before = at(B, work=runs(container("b", "1", "2")), joined=1, settings=Settings())
    state, _ = step(before, seen, 90, planned)
    state, _ = step(is_there(state, "b_1", 95), seen, 95, planned)
    state, _ = step(state, seen, 4_100, planned)
    state, _ = step(stopped(state), seen, 4_103, planned)
    state = at_work(state, "b_1", 4_107)
    agreed = replace(seen, barrier=Barrier(BarrierState.DONE))
    state, (reported,) = step(state, agreed, 4_108, planned)
    assert reported == ReportRunning(Running(2, silent_ms=7))
    agreed = said(state, agreed)
    assert step(state, agreed, 4_109, planned)[1] == ()
    state, (reported,) = step(replace(state, joined=3), replace(agreed, version=3), 4_110, planned)
    assert reported == ReportRunning(Running(3, silent_ms=0))


def test_a_processor_that_is_told_to_restart_starts_all_its_tasks_in_new_containers() -> None:
    """And reports by which request; one that has just come has nothing to stop."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b c")
    told = replace(settled, restarts={"b": "u"})
    work = runs(container("b", "b"), container("b_1", "c"))
    state = at(B, work=work, joined=1, running=Running(1))
    state, commands = step(state, told, 100, planned)
    both = container("b_2", "b", "c")
    assert commands == (stop("b", "b_1"), expect(both))
    state, commands = step(stopped(state), told, 103, planned)
    assert commands == (start(both), expect())
    assert step(state, told, 104, planned)[1] == (), "none has checked in"
    state, (reported,) = step(at_work(state, "b_2", 104), told, 104, planned)
    assert reported == ReportRunning(Running(1, restart="u", silent_ms=4))
    assert step(state, said(state, told), 105, planned)[1] == ()


def test_what_a_processor_has_reported_it_reports_again_when_somebody_has_overwritten_it() -> None:
    """By its own node: else it would seem never to have come to work, and requests would wait for that for ever."""
    seen = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    work = replace(runs(container("b", "b")), silent_ms=0)
    state = at(B, joined=1, running=Running(1, silent_ms=0), work=work)
    assert step(state, said(state, seen), 101, planned)[1] == ()
    assert step(state, seen, 101, planned)[1] == (ReportRunning(Running(1, silent_ms=0)),)


def test_who_has_a_container_that_does_not_check_in_in_time_gives_up() -> None:
    """Its tasks go to the others, and each request that waits for it ends, as when a container ends by itself."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    few = replace(Settings(), start_ms=1_000)
    state, _ = step(at(B, joined=1, settings=few), settled, 100, planned)
    assert step(state, settled, 1_099, planned)[1] == ()
    assert rules.wake_ms(replace(state, heard_ms=1_099)) == 1_100
    _, (given_up,) = step(state, settled, 1_100, planned)
    assert isinstance(given_up, GiveUp)
    assert given_up.why == "container b hasn't checked in 1 s after its start"
    state = at_work(state, "b", 1_050)
    assert step(state, settled, 1_100, planned)[1] == (ReportRunning(Running(1)),)


def test_standby_tasks_start_once_the_active_ones_that_start_too_have_been_at_work_for_a_while() -> (
    None
):
    """Four JVMs that started at once on two cores kept the tasks of a dead processor waiting for 7 s instead of 5."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b standby1")
    state, (started, *_) = step(at(B, joined=1), settled, 100, planned)
    assert started == start(container("b", "b"))
    assert step(state, settled, 30_099, planned)[1] == (), "one that never checks in"
    assert step(state, settled, 30_100, planned)[1] == (start(container("b-0", "standby1")),)
    state = at_work(state, "b", 5_000)
    state, commands = step(state, settled, 7_999, planned)
    assert commands == ()
    assert rules.wake_ms(state) == 8_000
    assert step(state, settled, 8_000, planned)[1] == (start(container("b-0", "standby1")),)


def test_standby_tasks_that_wait_for_a_container_to_end_wake_nobody() -> None:
    """They start with its successor's check-in, which is told."""
    seen = group(A, B, version=2, state=BarrierState.DONE, a="2", b="1 standby2")
    state = at(B, work=runs(container("b", "1", "2")), joined=2, settings=Settings())
    state, _ = step(state, seen, 100, planned)
    state, _ = step(is_there(state, "b_1", 100), seen, 100, planned)
    state, commands = step(state, seen, 4_100, planned)
    assert commands == (stop("b"),)
    assert state.work.wake_ms is None


def test_containers_become_fewer_once_all_is_at_work() -> None:
    """Those with the fewest tasks, as a start on its own then, not beside the one that has just been added."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="1 2 3 4")
    one, two, three = container("b", "1", "2"), container("b_1", "3"), container("b_2", "4")
    few = replace(Settings(), containers=2)
    work = replace(runs(one, two, three), at_work=frozenset({"b", "b_1"}))
    state = at(B, work=work, joined=1, running=Running(1), settings=few)
    assert step(state, settled, 100, planned)[1] == ()
    state, commands = step(at_work(state, "b_2", 101), settled, 101, planned)
    assert commands == (expect(container("b_3", "3", "4")),)
    state, _ = step(is_there(state, "b_3", 102), settled, 102, planned)
    assert step(state, settled, 4_102, planned)[1] == (stop("b_1", "b_2"),)


def test_a_version_that_adds_tasks_before_containers_became_fewer_does_not_add_to_them() -> None:
    """One more than there may be, at most: those that are too many become one at once."""
    few = replace(SETTINGS, containers=1)
    work = replace(runs(container("b", "1"), container("b_1", "2")), at_work=frozenset({"b"}))
    state = at(B, work=work, joined=1, settings=few)
    seen = group(A, B, version=2, a="4", b="1 2")
    assert step(state, seen, 100, planned)[1] == (JoinBarrier(2),), "one that adds none ends none"
    seen = group(A, B, version=2, a="4", b="1 2 3")
    _, commands = step(state, seen, 100, planned)
    both, added = container("b_3", "1", "2"), container("b_2", "3")
    assert commands == (JoinBarrier(2), stop("b", "b_1"), expect(both, added))


def test_what_ended_by_itself_takes_all_with_it_and_all_starts_anew() -> None:
    """Its lease was over: the others' is too."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="1 2")
    state = at(B, work=runs(container("b", "1"), container("b_1", "2")), joined=1)
    state = replace(state, work=state.work.ended(frozenset({"b"})))
    state, commands = step(state, settled, 100, planned)
    both = container("b", "1", "2")
    assert commands == (stop("b_1"), expect(both))
    assert step(stopped(state), settled, 101, planned)[1] == (start(both), expect())
