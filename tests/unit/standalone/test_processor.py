"""What a standalone processor does next: one scene for a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Member, Running
from samza_dagster.standalone.processor import (
    EndBarrier,
    GiveUp,
    JoinBarrier,
    Processor,
    Publish,
    Register,
    Report,
    Settings,
    StartWork,
    StopWork,
    step,
)

pytestmark = pytest.mark.unit

ACTIVE = frozenset({TaskMode.ACTIVE})
SETTINGS = Settings(debounce_ms=20, consensus_ms=40, session_ms=30, stop_ms=10)
A, B, C = (Member(f"000{n}", name, f"h{n}") for n, name in enumerate(("a", "b", "c")))


def container(processor_id: str, *tasks: str) -> ContainerModel:
    made = {
        name: TaskModel(
            task_name=name,
            system_stream_partitions=(),
            changelog_partition=0,
            task_mode=TaskMode.STANDBY if name.startswith("standby") else TaskMode.ACTIVE,
        )
        for name in tasks
    }
    return ContainerModel(processor_id=processor_id, tasks=made)


def model(**tasks: str) -> JobModel:
    """`a="1 2"`: the tasks of each processor."""
    return JobModel(config={}, containers={p: container(p, *t.split()) for p, t in tasks.items()})


def group(
    *members: Member,
    version: int = 0,
    state: BarrierState = BarrierState.NEW,
    joined: str = "",
    **tasks: str,
) -> GroupView:
    barrier = Barrier(state, frozenset(joined.split())) if version else None
    made = model(**tasks) if version else None
    return GroupView(members, version, version, 0, version, made, barrier)


def planned(group: GroupView) -> JobModel:
    return model(**{member.processor_id: member.processor_id for member in group.members})


def at(member: Member, **known: object) -> Processor:
    """A registered processor, which found an empty group, at time 100."""
    made = Processor(member.processor_id, member.location, SETTINGS, 100, member.sequence, found=0)
    return replace(made, **known)  # pyright: ignore[reportArgumentType]


def test_one_that_is_not_registered_registers_once_it_runs_nothing() -> None:
    """After an expired session its work ends first: a new node would promise that it runs none."""
    state = rules.expired(at(A, work=container("a", "1")))
    state, commands = step(state, group(), 110, planned)
    assert commands == (StopWork(ACTIVE),)
    assert step(state, group(), 111, planned)[1] == ()
    assert step(rules.stopped(state), group(), 112, planned)[1] == (Register(),)


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


def test_whose_work_changes_stops_before_it_joins_and_the_others_go_on() -> None:
    """A barrier is where everybody waits for those who give something up."""
    seen = group(A, B, version=2, a="1", b="2")
    assert step(at(B, work=container("b", "2"), joined=1), seen, 100, planned)[1] == (
        JoinBarrier(2),
    )
    state, commands = step(at(B, work=container("b", "1 2"), joined=1), seen, 100, planned)
    assert commands == (StopWork(ACTIVE),)
    assert step(state, seen, 105, planned)[1] == ()
    assert step(rules.stopped(state), seen, 106, planned)[1] == (JoinBarrier(2),)


def test_a_change_among_standbys_leaves_the_active_tasks_running() -> None:
    """And the reverse: who gives up standby tasks stops these alone, and starts these alone."""
    standby = frozenset({TaskMode.STANDBY})
    state = at(B, work=container("b", "2", "standby1"), joined=1)
    seen = group(A, B, version=2, a="1", b="2 standby3")
    state, commands = step(state, seen, 100, planned)
    assert commands == (StopWork(standby),)
    state = rules.stopped(state, standby)
    assert state.work == container("b", "2")
    state, commands = step(state, seen, 105, planned)
    assert commands == (JoinBarrier(2),)
    agreed = group(A, B, version=2, state=BarrierState.DONE, a="1", b="2 standby3")
    state, commands = step(state, agreed, 110, planned)
    assert commands == (StartWork(2, container("b", "2", "standby3"), model(), standby),)
    assert state.silent_ms is None


def test_work_starts_once_all_have_agreed() -> None:
    """Not while the barrier is new, and not what a version gives that was given up."""
    state = at(B, joined=2)
    for barrier, commands in (
        (BarrierState.NEW, ()),
        (BarrierState.TIMED_OUT, ()),
        (BarrierState.DONE, (StartWork(2, container("b", "2"), model(), ACTIVE),)),
    ):
        seen = group(A, B, version=2, state=barrier, a="1", b="2")
        assert step(state, seen, 100, planned)[1] == commands


def test_who_came_after_a_version_was_published_is_not_awaited_and_joins_the_next() -> None:
    """Unless it is named: then it came back under its id."""
    seen = group(A, B, C, version=2, a="1", b="2")
    state, commands = step(at(C, found=None), seen, 100, planned)
    assert commands == ()
    again = group(A, B, C, version=3, a="1", b="2", c="3")
    assert step(state, again, 110, planned)[1] == (JoinBarrier(3),)
    back = step(at(B, found=None), seen, 100, planned)[1]
    assert back == (JoinBarrier(2),)


def test_a_leader_ends_the_barrier_when_all_have_come_or_the_time_is_over() -> None:
    """Then it tries anew, after the debounce time."""
    state, _ = step(at(A), group(A, B), 100, planned)
    state, _ = step(state, group(A, B), 120, planned)
    waiting = group(A, B, version=1, joined="a", a="a", b="b")
    state, commands = step(state, waiting, 130, planned)
    assert commands == (JoinBarrier(1),)
    complete = group(A, B, version=1, joined="a b", a="a", b="b")
    assert step(state, complete, 140, planned)[1] == (EndBarrier(1, BarrierState.DONE),)
    late, commands = step(state, waiting, 160, planned)
    assert commands == (EndBarrier(1, BarrierState.TIMED_OUT),)
    given_up = group(A, B, version=1, state=BarrierState.TIMED_OUT, joined="a", a="a", b="b")
    _, (published,) = step(late, given_up, 180, planned)
    assert isinstance(published, Publish)
    assert published.version == 2


def test_a_version_is_not_agreed_on_when_somebody_has_come_back_elsewhere() -> None:
    """Its standby could be beside an active there; the next version is for where all are now."""
    state, _ = step(at(A), group(A, B), 100, planned)
    state, _ = step(state, group(A, B), 120, planned)
    elsewhere = Member("0009", "b", "h0")
    seen = group(A, elsewhere, version=1, joined="a b", a="a", b="b")
    state, commands = step(state, seen, 125, planned)
    assert commands == (JoinBarrier(1),)
    _, (published,) = step(state, seen, 145, planned)
    assert isinstance(published, Publish)


def test_work_has_ended_before_the_session_can_be_over() -> None:
    """By the processor's own clock, from when ZooKeeper answered last."""
    state = at(B, work=container("b", "2"), joined=1)
    assert rules.wake_ms(state) == 120
    assert step(state, None, 119, planned)[1] == ()
    state, commands = step(state, None, 120, planned)
    assert commands == (StopWork(ACTIVE),)
    assert step(rules.stopped(state), None, 125, planned)[1] == ()


def test_a_leader_whose_newest_version_is_for_other_members_plans_anew() -> None:
    """An older leader's last version gave tasks to one who is gone: nobody else would see to them."""
    seen = group(B, version=3, state=BarrierState.DONE, a="1", b="2")
    state, _ = step(at(B, counted=(B,), joined=3, work=container("b", "2")), seen, 100, planned)
    assert rules.wake_ms(state) == 120


def test_a_leader_asks_its_grouper_again_and_publishes_only_what_would_change() -> None:
    """Who has joined has standbys by then, and may get actives."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    leader = at(A, counted=(A, B), joined=1, work=container("a", "a"))
    state, _ = step(leader, settled, 100, planned)
    assert state.probe_ms == 100 + SETTINGS.probe_ms
    again, commands = step(state, settled, state.probe_ms, planned)
    assert (commands, again.plan_ms) == ((), None)
    _, (published,) = step(state, settled, state.probe_ms, lambda _: model(a="a b", b=""))
    assert isinstance(published, Publish)
    assert published.version == 2


def test_a_leader_waits_for_a_sessions_time_after_one_of_samzas_own_has_left() -> None:
    """That one stops its work a session's time after it was cut off: perhaps when its session is long over."""
    java = Member("0000", "java", "h9", holds_standbys=False)
    state, _ = step(at(A), group(java, A, B, version=1, java="1", a="2", b="3"), 100, planned)
    state, _ = step(state, group(A, B, version=1, java="1", a="2", b="3"), 105, planned)
    assert state.plan_ms == 105 + SETTINGS.session_ms
    state, _ = step(state, group(A, version=1, java="1", a="2", b="3"), 130, planned)
    assert state.plan_ms == 130 + SETTINGS.debounce_ms


def test_who_registers_takes_those_that_are_gone_for_samzas_own() -> None:
    """It never saw them, nor whoever had its own id before: their work may still run."""
    fresh = at(A, found=None)
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


def test_a_processor_reports_what_it_runs_and_how_long_its_tasks_had_no_container() -> None:
    """Once for each version, also when its work is the same."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    state, _ = step(at(B, work=container("b", "1"), joined=1), settled, 100, planned)
    state, (started,) = step(rules.stopped(state), settled, 107, planned)
    assert isinstance(started, StartWork)
    state, (reported,) = step(state, settled, 108, planned)
    assert reported == Report(Running(1, silent_ms=7))
    assert step(state, settled, 109, planned)[1] == ()


def test_a_processor_that_is_told_to_restart_stops_its_work_and_starts_the_same_again() -> None:
    """And reports by which request; one that has just come has nothing to stop."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    told = replace(settled, restarts={"b": "u"})
    state = at(B, work=container("b", "b"), joined=1, running=Running(1))
    state, commands = step(state, told, 100, planned)
    assert commands == (StopWork(ACTIVE),)
    state, (started,) = step(rules.stopped(state), told, 103, planned)
    assert started == StartWork(1, container("b", "b"), model(), ACTIVE)
    state, (reported,) = step(state, told, 104, planned)
    assert reported == Report(Running(1, restart="u", silent_ms=3))
    assert step(state, told, 105, planned)[1] == ()
