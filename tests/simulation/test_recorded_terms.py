"""What real coordinators record, replayed: one term, several in a file, a successor's own file; and logs that were changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.durable import changed
from samza_dagster.coordinator.recording import line_of, start_line_of
from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import (
    End,
    Ended,
    Group,
    Incarnation,
    JobState,
    Phase,
    Processor,
    Role,
)
from tests.rig.recorded_terms import (
    JOB,
    Recorded,
    edited,
    lines_of,
    record_two_terms,
    recorded,
    starts,
)
from tests.simulation.driver import SimulatedHistory, simulate
from tests.simulation.event_log import LogReplayed, replay_log
from tests.simulation.moves import Move
from tests.simulation.steps import handle
from tests.unit.placement.scenes import QUICK, Scene

pytestmark = pytest.mark.simulator


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


def test_limits_of_another_config_are_part_of_a_term(tmp_path: Path) -> None:
    """A successor with another lease goes by that, from its first step on."""
    path = tmp_path / "events.jsonl"
    scene, kept = recorded(path)
    assert scene.do(Move("kill-leader"))
    limits = replace(QUICK, lease_ms=QUICK.lease_ms * 2)
    scene.leader.epoch += 1
    kept.begin(limits)
    restarted = ev.CoordinatorRestarted(scene.now_ms)
    kept.recorder.record(restarted, step(replace(kept.stored, limits=limits), restarted).state)
    replayed = replay_log(path)
    assert (replayed.differs, replayed.judged) == (None, 1)


def test_what_a_deposed_leader_still_writes_is_followed_apart(tmp_path: Path) -> None:
    """It was paused, and goes on when another has begun: its lines bear its own term."""
    path = tmp_path / "events.jsonl"
    scene, kept = recorded(path)
    event = ev.TimePassed(scene.now_ms + 1)
    late = line_of(event, step(scene.state, event).state, kept.term)
    kept.take_over()
    scene.until_all_run()
    lines, start = lines_of(path), starts(path)[1]
    replayed = replay_log([*lines[: start + 1], late, *lines[start + 1 :]])
    assert (replayed.differs, replayed.terms) == (None, 2)
    assert replayed.events == len(lines) - 1


def test_a_term_whose_predecessor_is_not_in_the_log_is_not_judged(
    two_terms: tuple[Path, int],
) -> None:
    """A third coordinator led between them and recorded elsewhere."""
    path, start = two_terms
    lines = lines_of(path)
    later = [line.replace('"term":2', '"term":3') for line in lines[start - 1 :]]
    replayed = replay_log([*lines[: start - 10], *later])
    assert (replayed.differs, replayed.terms, replayed.judged) == (None, 2, 0)


def test_a_job_that_begins_anew_is_not_judged_by_its_first_life(tmp_path: Path) -> None:
    """Its state topic was deleted: terms count from 1 again."""
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        recorded(path)
    replayed = replay_log(path)
    assert (replayed.differs, replayed.terms, replayed.judged) == (None, 2, 0)


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


@pytest.mark.parametrize("ending", ["\n", "\n{}\n"])
def test_an_unreadable_line_elsewhere_is_refused(tmp_path: Path, ending: str) -> None:
    """It ends as a whole line does, or an event follows: nobody was killed there."""
    path = tmp_path / "events.jsonl"
    recorded(path)
    line = lines_of(path)[4]
    number = len(lines_of(path)) + 1
    with path.open("a") as out:
        out.write(line[:40] + ending.replace("{}", line))
    with pytest.raises(MalformedRecord, match=f"line {number}"):
        replay_log(path)


# -- a log that was changed ----------------------------------------------------------------------


def test_every_changed_time_of_an_event_is_named(two_terms: tuple[Path, int]) -> None:
    """An event that came at another time gives another state."""
    path, _ = two_terms
    lines = lines_of(path)

    def later(line: dict[str, Any]) -> None:
        line["event"]["at_ms"] += 1

    numbers = set(range(1, len(lines) + 1)) - set(starts(path))
    assert {edited(lines, number, later).differs == number for number in numbers} == {True}


def _moved(records: dict[str, Any]) -> None:
    records["group/0"]["group"]["processors"]["0"]["phase"] = "running"


def _without_a_group(records: dict[str, Any]) -> None:
    del records["group/1"]


def _dead_host(records: dict[str, Any]) -> None:
    records["host/host-2"]["alive"] = False


def _forgotten(records: dict[str, Any]) -> None:
    del records["uuid/u1"]


def _numbered_back(records: dict[str, Any]) -> None:
    records["job"]["state"]["next_epoch"] -= 1


@pytest.mark.parametrize(
    ("tamper", "where", "expected", "seen"),
    [
        (_moved, "groups.0.processors.0.phase", '"stopping"', '"running"'),
        (_without_a_group, "groups.1", None, "nothing"),
        (_dead_host, "hosts.host-2.alive", "true", "false"),
        (_forgotten, "uuids.u1", "0", "nothing"),
        (_numbered_back, "next_epoch", "5", "4"),
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


@pytest.mark.parametrize(
    ("edit", "seen"),
    [
        (lambda line: line.pop("limits"), "line 1.limits: None"),
        (lambda line: line.pop("job"), "line 1.job: None"),
        (lambda line: line.update(term="1"), "line 1.term: '1'"),
        (lambda line: line.update(records=[]), r"line 1.records: \[\]"),
        (lambda line: line["records"].update(job=1), "line 1.records.job: 1"),
        (
            lambda line: line["records"]["job"].clear(),
            "line 1.records: key job: field state: it is missing",
        ),
        (lambda line: line["limits"].update(more=1), "line 1.limits.more"),
        (
            lambda line: line["records"]["group/0"]["group"].update(more=1),
            "line 1.records: key group/0: field group.more",
        ),
    ],
)
def test_a_malformed_start_is_refused(
    two_terms: tuple[Path, int], edit: Callable[[dict[str, Any]], None], seen: str
) -> None:
    """With line and field."""
    path, start = two_terms
    with pytest.raises(MalformedRecord, match=seen):
        edited(lines_of(path)[start - 1 :], 1, edit)


def test_a_line_of_a_term_that_never_began_is_refused(two_terms: tuple[Path, int]) -> None:
    """No guess at which state it belongs to."""
    path, _ = two_terms
    with pytest.raises(MalformedRecord, match="line 2: term 9"):
        edited(lines_of(path), 2, lambda line: line.update(term=9))


def test_a_start_of_a_thousand_containers_is_of_some_megabytes() -> None:
    """Once a term, with as many requests as are remembered."""
    topic: dict[str, Any] = {}
    state = JobState(JOB, "run-1")
    groups = {str(n): a_group(n) for n in range(500)}
    state = replace(state, groups=state.groups.update(groups))
    for key, value in changed(JobState(JOB), state, leader_epoch=1):
        topic[key] = {"version": 1, **(value or {})}
    for number in range(state.limits.remembered_uuids):
        uuid = f"88b0d30c-d518-4307-9e8e-{number:012}"
        topic[f"uuid/{uuid}"] = {"version": 1, "at_ms": 1_700_000_000_000}
    line = start_line_of(1, topic, restore(topic, JOB))
    assert 1_000_000 < len(line) < 4_000_000, f"{len(line):,}"


def a_group(number: int) -> Group:
    active, standby = (
        Processor(
            processor_id,
            role,
            Phase.RUNNING,
            Incarnation(
                number + 1,
                f"demo-{processor_id}-{number:06}",
                f"host-{number % 50}.example.org",
                f"demo-{number:06}",
                "b" * 32,
                "c" * 36,
            ),
            last_seen_host=f"host-{number % 50}.example.org",
            last_end=End(
                f"demo-{processor_id}-{number:06}",
                number,
                "host-1.example.org",
                Ended.DEAD,
                1_700_000_000_000,
                "host-1.example.org saw it dead, exit status 137",
            ),
            avoid_hosts=("host-1.example.org", "host-2.example.org"),
        )
        for processor_id, role in ((str(number), Role.ACTIVE), (f"{number}-0", Role.STANDBY))
    )
    return Group(str(number), {active.processor_id: active, standby.processor_id: standby})
