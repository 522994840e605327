"""What real coordinators record, replayed: one term, several in a file, a successor's own file; and logs that were changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.durable import Record, changed, host_record
from samza_dagster.coordinator.recording import JsonLinesRecorder, line_of, start_line_of
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState, Limits, Phase
from tests.simulation.driver import SimulatedHistory, simulate
from tests.simulation.event_log import LogReplayed, replay_log
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.steps import handle
from tests.simulation.world import World
from tests.unit.placement.scenes import GROUPS, HOSTS, PLACES, QUICK, Scene, ask

pytestmark = pytest.mark.simulator

JOB = "demo"


class Recorded:
    """A world whose leaders keep a state topic and record what they take, as `Term` does."""

    def __init__(self, world: World, log: Path) -> None:
        self.world, self.log = world, log
        self.topic: dict[str, Any] = {}
        self.stored = JobState(world.job)
        self.term = 0
        world.heard = self._heard

    def begin(self, limits: Limits | None = None) -> None:
        """The leader reads the topic, under its own config's limits."""
        self.term = self.world.leader.epoch
        self.stored = restore(self.topic, self.world.job)
        state = self.stored if limits is None else replace(self.stored, limits=limits)
        self.recorder = JsonLinesRecorder(self.log)
        self.recorder.begin(self.term, self.topic, state)

    def take_over(self, log: Path | None = None) -> None:
        """The leader is killed; the next one appends to the same file, or to its own."""
        self.log = log or self.log
        assert self.world.do(Move("kill-leader"))
        assert self.world.do(Move("take-over"))

    def _heard(self, event: ev.Event, taken: Step) -> None:
        if self.term != self.world.leader.epoch:
            self.begin(taken.state.limits)  # a take-over leaves those of its leader
        self.recorder.record(event, taken.state)
        self.commit(taken.state)

    def commit(self, state: JobState) -> None:
        """Every record that the step changed, as text and back."""
        records: list[Record] = changed(self.stored, state, leader_epoch=self.term)
        records += [host_record(host, None) for host in state.hosts.values()]
        for key, value in records:
            if value is None:
                self.topic.pop(key, None)
            else:
                self.topic[key] = json.loads(json.dumps(value))
        self.stored = state


def recorded(path: Path) -> tuple[Scene, Recorded]:
    """A job that runs, recorded from its deployment on."""
    scene = Scene.of(HOSTS, slots=4, job=JOB, judge=InvariantJudge())
    assert isinstance(scene, Scene)
    scene.steps_told = []
    kept = Recorded(scene, path)
    scene.deploy(GROUPS, last_seen=PLACES, limits=QUICK)
    for host in HOSTS:
        scene.register(host)
    scene.until_all_run()
    return scene, kept


def record_two_terms(directory: Path) -> tuple[Path, int]:
    """A log of two terms, the first killed in a move; and the number of the second's first line."""
    path = directory / "events.jsonl"
    scene, kept = recorded(path)
    scene.submit(ask("0", "host-3"))
    scene.until_phase("0", Phase.STOPPING)
    kept.take_over()
    scene.until_all_run()
    return path, starts(path)[1]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def starts(path: Path) -> list[int]:
    """Numbers of the lines that a term begins with."""
    return [n for n, line in enumerate(lines_of(path), 1) if "records" in json.loads(line)]


def edited(lines: list[str], number: int, edit: Callable[[dict[str, Any]], None]) -> LogReplayed:
    """The replay of a log one line of which was changed."""
    line = json.loads(lines[number - 1])
    edit(line)
    return replay_log([*lines[: number - 1], json.dumps(line), *lines[number:]])


# What real coordinators record, replayed: one term, several in a file, a successor's own file; and logs that were changed.


@pytest.fixture
def two_terms(tmp_path: Path) -> tuple[Path, int]:
    """A log of two terms, and the number of the second's first line."""
    return record_two_terms(tmp_path)


def test_a_log_is_replayed_past_a_take_over(two_terms: tuple[Path, int]) -> None:
    """What the successor restored is what the records held after the last step."""
    path, _ = two_terms
    replayed = replay_log(path)
    assert (replayed.differs, replayed.terms, replayed.judged) == (None, 2, 1)
    assert replayed.events == len(lines_of(path)) - 2


def test_a_log_is_replayed_from_a_take_over(tmp_path: Path) -> None:
    """A successor's own file is complete in itself; the other ends with its leader."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    scene, kept = recorded(first)
    kept.take_over(second)
    scene.until_all_run()
    for path in (first, second):
        replayed = replay_log(path)
        assert (replayed.differs, replayed.terms, replayed.judged) == (None, 1, 0)
        assert replayed.events == len(lines_of(path)) - 1 > 5


def many_terms() -> list[SimulatedHistory]:
    """Five in each of which leaders are killed or paused, and replaced."""
    drawn = (simulate(seed, 150) for seed in range(1, 100))
    replaced = (h for h in drawn if sum(m.kind == "take-over" for m in h.script.moves) > 3)
    return list(itertools.islice(replaced, 5))


def test_histories_of_many_terms_are_replayed_whole(tmp_path: Path) -> None:
    """Under every kind of fault, with requests remembered and forgotten; from any term on too."""
    judged = 0
    for history in many_terms():
        seed = history.seed
        path = tmp_path / f"{seed}.jsonl"
        world = history.script.setup.build()
        kept = Recorded(world, path)
        kept.commit(world.committed)
        kept.begin()
        # As if it had just restored what the setup made: from here on the log is whole.
        world.committed = kept.stored
        handle(world, ev.CoordinatorRestarted(world.now_ms))
        for move in history.script.moves:
            world.do(move)
        replayed = replay_log(path)
        assert replayed.differs is None, (seed, replayed)
        assert replayed.judged == replayed.terms - 1
        judged += replayed.judged
        lines = lines_of(path)
        for number in starts(path):
            assert replay_log(lines[number - 1 :]).differs is None, (seed, number)
    assert judged >= 20


def test_a_last_step_that_was_not_committed_is_no_difference(tmp_path: Path) -> None:
    """The leader was killed between its line and its commit. Two steps lost would be one."""
    path = tmp_path / "events.jsonl"
    _, kept = recorded(path)
    topics = [dict(kept.topic)]
    state = kept.stored
    for at_ms in (1, 2):
        event = ev.ContainerStopped(
            state.now_ms + at_ms, next(iter(executions(state))), "host-1", at_ms
        )
        state = step(state, event).state
        kept.recorder.record(event, state)
        kept.commit(state)
        topics.append(dict(kept.topic))
    lines = lines_of(path)

    def taken_over(topic: dict[str, Any]) -> LogReplayed:
        restored = restore(topic, JOB)
        return replay_log([*lines, start_line_of(kept.term + 1, topic, restored)])

    assert [taken_over(topic).differs for topic in topics] == [len(lines) + 1, None, None]
    assert taken_over(topics[0]).where.startswith("groups.")


def executions(state: JobState) -> Iterator[str]:
    for group_id in sorted(state.groups):
        for processor in state.groups[group_id].processors.values():
            if processor.incarnation is not None:
                yield processor.incarnation.execution_id


# -- a writer that was killed within a line ----------------------------------------------------


def test_a_line_cut_short_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    """Its step wasn't committed. The next term begins on a line of its own."""
    path = tmp_path / "events.jsonl"
    scene, kept = recorded(path)
    event = ev.TimePassed(scene.now_ms + 1)
    line = line_of(event, step(scene.state, event).state, kept.term)
    for cut in (1, len(line) // 2, len(line)):
        whole = path.read_bytes()
        with path.open("ab") as out:
            out.write(line[:cut].encode())
        alone = replay_log(path)
        complete = cut == len(line)
        number = len(whole.splitlines()) + 1
        assert alone.differs is None
        assert alone.cut_short == (() if complete else (number,))
        kept.take_over()
        scene.until_all_run()
        after = replay_log(path)
        assert (after.differs, after.judged) == (None, 1)
        assert after.cut_short == alone.cut_short
        path.write_bytes(whole)
        scene, kept = recorded_again(path)


def recorded_again(path: Path) -> tuple[Scene, Recorded]:
    path.unlink()
    return recorded(path)


# -- a log that was changed ----------------------------------------------------------------------


def _without_a_group(records: dict[str, Any]) -> None:
    del records["group/1"]


def _dead_host(records: dict[str, Any]) -> None:
    records["host/host-2"]["alive"] = False


@pytest.mark.parametrize(
    ("tamper", "where", "expected", "seen"),
    [
        (_without_a_group, "groups.1", None, "nothing"),
        (_dead_host, "hosts.host-2.alive", "true", "false"),
    ],
)
def test_a_start_that_the_term_before_did_not_leave_is_named(
    two_terms: tuple[Path, int],
    tamper: Callable[[dict[str, Any]], None],
    where: str,
    expected: str | None,
    seen: str,
) -> None:
    """With the first field that differs. Alone, the line is found by its own digest."""
    path, start = two_terms
    lines = lines_of(path)
    replayed = edited(lines, start, lambda line: tamper(line["records"]))
    assert (replayed.differs, replayed.where, replayed.seen) == (start, where, seen)
    assert expected is None or replayed.expected == expected
    alone = edited(lines[start - 1 :], 1, lambda line: tamper(line["records"]))
    assert (alone.differs, alone.where) == (1, "")


def test_a_step_that_was_cut_out_is_found(two_terms: tuple[Path, int]) -> None:
    """Unless it changed nothing: the last of a term at the next one's start, others before."""
    path, start = two_terms
    lines = lines_of(path)
    digests = [json.loads(line)["state"] for line in lines]
    for number in range(2, len(lines)):
        if number not in starts(path) and digests[number - 1] != digests[number - 2]:
            cut = replay_log([*lines[: number - 1], *lines[number:]])
            assert cut.differs == number, (number, cut)
    assert replay_log([*lines[: start - 2], *lines[start - 1 :]]).where.startswith("groups.0.")
