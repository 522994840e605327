"""A processor's runner over a virtual ZooKeeper: by what its containers live, and what becomes of writes that fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from kazoo.exceptions import ConnectionLoss

from samza_dagster.agent.lease import Now, read_clocks
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.group import Running
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
        self.hang = hang

    def renew(self, asked: Now, lease_s: float) -> None:
        self.leases.append((asked, lease_s))

    def expect(self, command: Expect, there: Callable[[str], None]) -> None: ...

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        for each in command.containers:
            self.started.append(each.processor_id)
            if not self.hang:
                at_work(each.processor_id)

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None: ...


def _runner(
    asked: _Asked, containers: _Containers, now_ms: Callable[[], int] = lambda: 0
) -> ProcessorRunner:
    return ProcessorRunner(
        Session(Server(30_000, lambda: 0), asked),  # pyright: ignore[reportArgumentType]
        PATHS,
        processor_id="a",
        location="h0",
        settings=Settings(debounce_ms=0),
        grouper=partial(dealt, ("Partition 0",)),
        containers=containers,
        now_ms=now_ms,
    )


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
