"""What a standalone processor does next: one scene for a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Member, Running
from samza_dagster.standalone.processor import (
    EndBarrier,
    Expect,
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
from tests.rig.standalone_groups import runs

pytestmark = pytest.mark.unit

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


def start(*containers: ContainerModel) -> StartWork:
    return StartWork(containers, (), model())


def expect(*containers: ContainerModel) -> Expect:
    return Expect(containers, (), model())


def stop(*ids: str) -> StopWork:
    return StopWork(frozenset(ids))


def stopped(state: Processor) -> Processor:
    """All have ended that were told to."""
    return rules.stopped(state, state.work.ending)


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
    state, commands = step(rules.is_there(state, "b_1", 106), seen, 106, planned)
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
    state, commands = step(rules.is_there(state, "b_1", 101), seen, 849, planned)
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
        state, commands = step(state, replace(settled, members=members), now_ms, planned)
        assert commands == ()
    came = replace(settled, members=(A, back))
    state, commands = step(state, came, 119 + SETTINGS.debounce_ms, planned)
    assert commands == (Publish(2, planned(came), 1),)
    seen = group(A, back, version=2, a="a", b="b")
    state, commands = step(state, seen, 140, planned)
    assert commands == (JoinBarrier(2),)
    agreed = group(A, back, version=2, state=BarrierState.DONE, joined="a b", a="a", b="b")
    assert step(state, agreed, 141, planned)[1] == (Report(Running(2, silent_ms=0)),)


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


def test_a_leader_whose_newest_version_is_for_other_members_plans_anew() -> None:
    """An older leader's last version gave tasks to one who is gone: nobody else would see to them."""
    seen = group(B, version=3, state=BarrierState.DONE, a="1", b="2")
    state, _ = step(
        at(B, counted=(B,), joined=3, work=runs(container("b", "2"))), seen, 100, planned
    )
    assert rules.wake_ms(state) == 120


def test_a_leader_asks_its_grouper_again_and_publishes_only_what_would_change() -> None:
    """Who has joined has standbys by then, and may get actives."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b")
    leader = at(A, counted=(A, B), joined=1, work=runs(container("a", "a")))
    state, _ = step(leader, settled, 100, planned)
    probe_ms = 100 + SETTINGS.probe_ms
    assert state.probe_ms == probe_ms
    again, commands = step(state, settled, probe_ms, planned)
    assert (commands, again.plan_ms) == ((), None)
    _, (published,) = step(state, settled, probe_ms, lambda _: model(a="a b", b=""))
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


def test_a_processor_reports_what_it_runs_and_how_long_its_tasks_were_silent() -> None:
    """Once for each version, also when its work is the same; silent from the end of their container till they are at work."""
    seen = group(A, B, version=2, a="2", b="1")
    before = at(B, work=runs(container("b", "1", "2")), joined=1, settings=Settings())
    state, _ = step(before, seen, 90, planned)
    state, _ = step(rules.is_there(state, "b_1", 95), seen, 95, planned)
    state, _ = step(state, seen, 4_100, planned)
    state, _ = step(stopped(state), seen, 4_103, planned)
    state = rules.at_work(state, "b_1", 4_107)
    agreed = replace(seen, barrier=Barrier(BarrierState.DONE))
    state, (reported,) = step(state, agreed, 4_108, planned)
    assert reported == Report(Running(2, silent_ms=7))
    assert step(state, agreed, 4_109, planned)[1] == ()
    state, (reported,) = step(replace(state, joined=3), replace(agreed, version=3), 4_110, planned)
    assert reported == Report(Running(3, silent_ms=0))


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
    state, (reported,) = step(rules.at_work(state, "b_2", 104), told, 104, planned)
    assert reported == Report(Running(1, restart="u", silent_ms=4))
    assert step(state, told, 105, planned)[1] == ()


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
    state = rules.at_work(state, "b", 1_050)
    assert step(state, settled, 1_100, planned)[1] == (Report(Running(1)),)


def test_standby_tasks_start_once_the_active_ones_that_start_too_have_been_at_work_for_a_while() -> (
    None
):
    """Four JVMs that started at once on two cores kept the tasks of a dead processor waiting for 7 s instead of 5."""
    settled = group(A, B, version=1, state=BarrierState.DONE, joined="a b", a="a", b="b standby1")
    state, (started, *_) = step(at(B, joined=1), settled, 100, planned)
    assert started == start(container("b", "b"))
    assert step(state, settled, 30_099, planned)[1] == (), "one that never checks in"
    assert step(state, settled, 30_100, planned)[1] == (start(container("b-0", "standby1")),)
    state = rules.at_work(state, "b", 5_000)
    state, commands = step(state, settled, 7_999, planned)
    assert commands == ()
    assert rules.wake_ms(state) == 8_000
    assert step(state, settled, 8_000, planned)[1] == (start(container("b-0", "standby1")),)


def test_standby_tasks_that_wait_for_a_container_to_end_wake_nobody() -> None:
    """They start with its successor's check-in, which is told."""
    seen = group(A, B, version=2, state=BarrierState.DONE, a="2", b="1 standby2")
    state = at(B, work=runs(container("b", "1", "2")), joined=2, settings=Settings())
    state, _ = step(state, seen, 100, planned)
    state, _ = step(rules.is_there(state, "b_1", 100), seen, 100, planned)
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
    state, commands = step(rules.at_work(state, "b_2", 101), settled, 101, planned)
    assert commands == (expect(container("b_3", "3", "4")),)
    state, _ = step(rules.is_there(state, "b_3", 102), settled, 102, planned)
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
    state = rules.stopped(state, frozenset({"b"}))
    state, commands = step(state, settled, 100, planned)
    both = container("b", "1", "2")
    assert commands == (stop("b_1"), expect(both))
    assert step(stopped(state), settled, 101, planned)[1] == (start(both), expect())
