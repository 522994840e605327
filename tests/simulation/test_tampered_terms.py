"""Logs of real coordinators that were changed, and what a term's start costs in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.durable import changed
from samza_dagster.coordinator.recording import start_line_of
from samza_dagster.errors import MalformedRecord
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
    edited,
    lines_of,
    record_two_terms,
    starts,
)
from tests.simulation.event_log import replay_log

pytestmark = pytest.mark.simulator


@pytest.fixture
def two_terms(tmp_path: Path) -> tuple[Path, int]:
    """A log of two terms, and the number of the second's first line."""
    return record_two_terms(tmp_path)


def test_every_changed_digest_is_named(two_terms: tuple[Path, int]) -> None:
    """The line, and no other: of events and of what a term began with."""
    path, _ = two_terms
    lines = lines_of(path)
    for number in range(1, len(lines) + 1):
        replayed = edited(lines, number, lambda line: line.update(state="0" * 64))
        assert (replayed.differs, replayed.expected) == (number, "0" * 64)


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
