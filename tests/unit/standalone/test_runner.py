"""A processor's runner over a virtual ZooKeeper: by what its containers live, and what becomes of writes that fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from samza_dagster.agent.lease import Now, read_clocks
from samza_dagster.assignment import by_locality
from samza_dagster.errors import ActionFailed
from samza_dagster.model import JobModel
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.group import GroupView, LocalStores, Running
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.runner import ProcessorRunner
from tests.rig.standalone_groups import dealt
from tests.simulation.standalone_process import PATHS
from tests.simulation.standalone_server import Server, Session

pytestmark = pytest.mark.unit


class _Asked:
    """When ZooKeeper was asked; it answers unless it `is_away`, but for one write, after `answers` others."""

    def __init__(self, answers: int = -1) -> None:
        self.at: list[Now] = []
        self.is_away = False
        self.answers = answers

    def before(self) -> None:
        self.at.append(read_clocks())
        if self.is_away:
            raise ConnectionLoss

    def after_write(self) -> None:
        self.answers -= 1
        if self.answers == -1:
            raise ConnectionLoss

    def seen(self, seen: int, newest: int) -> int:
        """All that was written."""
        del seen
        return newest


class _Containers:
    """From when and for how long they may live, and which have started; they are at work at once, unless they `hang`."""

    def __init__(self, *, hang: bool = False) -> None:
        self.leases: list[tuple[Now, float]] = []
        self.started: list[str] = []
        self.stopping: list[str] = []
        self.stopped: Callable[[str], None] = lambda _: None
        self.hang = hang

    def renew(self, asked: Now, lease_s: float) -> None:
        self.leases.append((asked, lease_s))

    def expect(self, command: Expect, there: Callable[[str], None]) -> None: ...

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        for each in command.containers:
            self.started.append(each.processor_id)
            if not self.hang:
                at_work(each.processor_id)

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None:
        self.stopping += containers
        self.stopped = stopped


class _Fence:
    """What was asked of the brokers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def admit(self, registration: str) -> None:
        self.asked.append(f"admit {registration}")

    def shut_out_others(self, version: int, registered: Callable[[], Set[str]]) -> None:
        self.asked.append(f"shut out all but {', '.join(registered())} for {version}")


def _runner(
    asked: _Asked,
    containers: _Containers,
    now_ms: Callable[[], int] = lambda: 0,
    server: Server | None = None,
    **more: Any,
) -> ProcessorRunner:
    return ProcessorRunner(
        Session(server or Server(30_000, lambda: 0), asked),  # pyright: ignore[reportArgumentType]
        PATHS,
        location="h0",
        settings=Settings(debounce_ms=0),
        containers=containers,
        now_ms=now_ms,
        **{"processor_id": "a", "grouper": partial(dealt, ("Partition 0",)), **more},
    )


def _turns(runner: ProcessorRunner, count: int = 8) -> None:
    for _ in range(count):
        assert runner.turn()


def test_containers_outlive_no_session() -> None:
    """Theirs is less than the session's time, from before ZooKeeper was asked, which counts it from then; without an
    answer it isn't renewed."""
    asked, containers = _Asked(), _Containers()
    runner = _runner(asked, containers)
    runner.begin()
    for _ in range(3):
        asked.at.clear()
        runner.turn()
        from_, lease_s = containers.leases[-1]
        assert from_.boottime_s <= asked.at[0].boottime_s
        assert lease_s < Settings().session_ms / 1_000
    asked.is_away = True
    runner.turn()
    assert len(containers.leases) == 3


def test_a_write_whose_answer_is_lost_is_made_again_at_once() -> None:
    """Whichever it is, from the registration to the report of what runs: no time-out has to end before."""
    for answers in count():
        asked, containers = _Asked(), _Containers()
        runner = _runner(asked, containers)
        runner.begin()
        asked.answers = answers
        for _ in range(10):
            runner.turn()
        group, running = runner.seen().group, runner.state.running
        assert group is not None
        assert running == Running(group.agreed)
        assert containers.started == ["a"]
        if asked.answers >= 0:  # it made no more
            break
    assert answers > 6


def test_it_is_behind_since_it_first_didnt_run_what_is_agreed_on() -> None:
    """However often it reads the group meanwhile: an alert goes by that."""
    clock = [1_000]
    runner = _runner(_Asked(), _Containers(hang=True), lambda: clock[0])
    runner.begin()
    behind: list[int] = []
    for _ in range(60):
        runner.turn()
        behind.append(runner.seen().behind_ms)
        clock[0] += 1_000
    assert behind == sorted(behind)
    assert behind[-1] > 50_000


def test_who_leaves_goes_once_its_containers_have_ended() -> None:
    """Till then its node is there, and nobody else gets its tasks; they live on by what it reads."""
    server, containers = Server(30_000, lambda: 0), _Containers()
    runner = _runner(_Asked(), containers, server=server)
    runner.begin()
    _turns(runner)
    runner.leave()
    renewed = len(containers.leases)
    _turns(runner, 3)
    assert containers.stopping == ["a"], "it is told once"
    assert len(containers.leases) == renewed + 3
    assert server.node(PATHS.processors).children
    containers.stopped("a")
    assert not runner.turn()
    assert not server.node(PATHS.processors).children
    runner.run()


def test_who_gives_up_says_why_and_leaves_nothing_behind() -> None:
    """By the error with which its process ends."""
    server, containers, clock = Server(30_000, lambda: 0), _Containers(hang=True), [0]
    runner = _runner(_Asked(), containers, lambda: clock[0], server)
    runner.begin()
    _turns(runner)
    assert runner.state.work.running
    clock[0] = Settings().start_ms
    _turns(runner, 2)
    containers.stopped("a")
    with pytest.raises(ActionFailed, match=r"the processor a.*container a hasn't checked in"):
        runner.run()
    assert not server.node(PATHS.processors).children


def test_what_ended_by_itself_starts_anew_without_another_version() -> None:
    """What is left of it ends first."""
    containers = _Containers()
    runner = _runner(_Asked(), containers)
    runner.begin()
    _turns(runner)
    runner.start_anew()
    _turns(runner, 2)
    assert (containers.stopping, containers.started) == (["a"], ["a"])
    containers.stopped("a")
    _turns(runner, 2)
    assert containers.started == ["a", "a_1"]
    group = runner.seen().group
    assert group is not None
    assert group.version == 1


def test_brokers_let_a_processor_in_once_it_is_registered_and_others_out_before_a_version_holds() -> (
    None
):
    """Not for one that was given up."""
    fence, server = _Fence(), Server(30_000, lambda: 0)
    runner = _runner(_Asked(), _Containers(), server=server, fence=fence)
    runner.begin()
    runner.turn()
    (admitted,) = fence.asked
    assert admitted.startswith("admit ")
    _turns(runner)
    registration = admitted.removeprefix("admit ")
    assert fence.asked == [admitted, f"shut out all but {registration} for 1"]


def test_what_is_known_of_a_group_is_as_old_as_a_session_lives_at_most() -> None:
    """Beyond that it may be registered no more: nobody is told how the group was. Nor while it isn't registered."""
    asked, clock = _Asked(), [1_000]
    runner = _runner(asked, _Containers(), lambda: clock[0])
    runner.begin()
    runner.turn()
    assert runner.seen().group is None
    _turns(runner)
    assert runner.seen().registrations == 1
    asked.is_away = True
    for later_ms, is_known in ((0, True), (29_999, True), (30_000, False)):
        clock[0] = 1_000 + later_ms
        runner.turn()
        seen = runner.seen()
        assert (seen.group is not None, seen.now_ms) == (is_known, clock[0])


def test_a_lost_session_is_counted_and_its_processor_registers_again() -> None:
    """Each registration has a number of its own."""
    server, clock, containers = Server(30_000, lambda: 0), [1_000], _Containers()
    runner = _runner(_Asked(), containers, lambda: clock[0], server)
    runner.begin()
    _turns(runner)
    server.end(next(iter(server.heard_ms)))
    _turns(runner, 2)
    assert (runner.seen().lost_sessions, runner.seen().group) == (1, None)
    containers.stopped("a")
    _turns(runner)
    clock[0] += 30_000  # one of Samza's own might have had its id, and work on for a session's time
    _turns(runner, 1)
    assert runner.seen().behind_ms == 30_000
    _turns(runner)
    seen = runner.seen()
    assert (seen.lost_sessions, seen.registrations, seen.behind_ms) == (1, 2, 0)
    assert containers.started == ["a", "a"]


def test_it_reads_its_group_several_times_in_a_session_and_when_something_is_due() -> None:
    """What is due while ZooKeeper is away keeps no processor busy."""
    clock = [1_000]
    asked = _Asked()
    runner = _runner(asked, _Containers(hang=True), lambda: clock[0])
    assert runner.wait_s == 5
    runner.begin()
    _turns(runner)
    asked.is_away = True
    clock[0] = 1_000 + Settings().session_ms - Settings().stop_ms - 100
    assert runner.wait_s == 0.1
    clock[0] += 200
    assert runner.wait_s == 0.02


def test_inputs_that_have_grown_are_planned_for_once_somebody_says_so() -> None:
    """The next version is for them: nobody reads what a topic has got till then."""
    small = JobPlan({"in": 1}, {"in": "kafka"}, 0, by_locality, is_stateful=False)
    plans = [small]

    def grouper(group: GroupView, staying: Set[str]) -> JobModel:
        return plans[-1].model(group, staying)

    runner = _runner(_Asked(), _Containers(), grouper=grouper)
    runner.begin()
    _turns(runner)
    plans.append(replace(small, partition_counts={"in": 2}))
    for version in (1, 2):
        _turns(runner)
        group = runner.seen().group
        assert group is not None
        assert group.version == version
        runner.plan_anew()


def test_a_processor_says_which_stores_it_found_when_it_began(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By where tasks ran: in its log, and to whoever looks at the group."""
    server, found = Server(30_000, lambda: 0), LocalStores(("j-1/s/T0",), ("j-1/s/T1",))
    first = _runner(_Asked(), _Containers(), server=server)
    first.begin()
    _turns(first)
    asked: list[Mapping[str, str]] = []

    def stores_of(locality: Mapping[str, str]) -> LocalStores:
        asked.append(locality)
        return found

    second = _runner(_Asked(), _Containers(), server=server, processor_id="b", stores_of=stores_of)
    second.begin()
    _turns(second, 3)
    assert asked == [{"Partition 0": "h0"}]
    group = second.seen().group
    assert group is not None
    assert [member.stores for member in group.members] == [LocalStores(), found]
    assert "b may not read and write j-1/s/T1" in caplog.text
    assert (
        "b had unused stores when it started, of tasks that ran elsewhere: j-1/s/T0" in caplog.text
    )
