"""What the chaos run judges by: the broker's batches, and its own schedule and sums."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker_log import (
    Overlap,
    RecordBatch,
    overlaps,
    parse,
)
from samza_dagster.sandbox.judge import OutputVerdict
from tests.chaos.__main__ import told_whatever_happens
from tests.chaos.in_force import CarriedOut
from tests.chaos.owners import batches_of_leader, unjudged
from tests.chaos.report import (
    THAW_MS,
    Befallen,
    Report,
    befell,
    same_host,
)
from tests.chaos.schedule import Fault
from tests.rig.load_watch import LoadWatch

pytestmark = pytest.mark.unit


def written_by(*producers: int) -> list[RecordBatch]:
    """Batches of one record each."""
    return [RecordBatch(n, n + 1, producer, n) for n, producer in enumerate(producers)]


def batch(
    first: int, records: int, producer: int, *, control: bool = False, by_broker: bool = False
) -> bytes:
    """A batch of format 2 with nothing in it but its header."""
    attributes = (0x20 if control else 0) | (0x08 if by_broker else 0)
    body = struct.pack(
        ">iBIhiqqqhii", 0, 2, 0, attributes, records - 1, 5, 9, producer, 0, 0, records
    )
    return struct.pack(">qi", first, len(body)) + body


def test_who_comes_back_after_another_has_written_was_a_second_owner() -> None:
    """Told with the place in the log."""
    (found,) = overlaps("t", 3, written_by(1, 2, 1))
    assert (found.partition, found.offset, found.producer_id, found.other) == (3, 2, 1, 2)


@given(st.lists(st.integers(0, 3), max_size=30))
def test_every_return_is_told(producers: list[int]) -> None:
    """Counted a second time: the changes of writer, less the first run of each."""
    changes = sum(a != b for a, b in zip([None, *producers], producers, strict=False))
    assert len(overlaps("t", 0, written_by(*producers))) == changes - len(set(producers))


def test_batches_are_read_as_the_broker_writes_them() -> None:
    """Markers of transactions are no writes, and a torn tail is none yet."""
    data = batch(0, 3, 7) + batch(3, 1, 8, control=True) + batch(4, 2, 9)
    assert parse(data) == [RecordBatch(0, 3, 7, 9), RecordBatch(4, 6, 9, 9)]
    assert parse(data[:-1]) == [RecordBatch(0, 3, 7, 9)]
    assert parse(b"") == []
    assert parse(batch(0, 1, 7, by_broker=True)) == [RecordBatch(0, 1, 7, 9, True)]


def test_a_log_without_names_or_thinned_out_by_compaction_cannot_be_judged() -> None:
    """All batches without a producer's id look like one owner's; of three owners one has left none."""
    assert overlaps("t", 0, written_by(-1, -1, -1)) == []
    assert "3 of 3 batches name no producer" in unjudged("t", 0, written_by(-1, -1, -1), 1)
    assert unjudged("t", 0, written_by(1, 1, 2), 2) == ""
    assert "2 producers, but 3 owners" in unjudged("t", 0, written_by(1, 3), 3)
    assert unjudged("t", 0, [], 1)


def verdict(completed: int) -> OutputVerdict:
    """Nothing is missing."""
    return OutputVerdict(2 * completed, completed, completed, 0, (), 0, 0, (), 0.1)


def test_nothing_missing_without_a_load_is_no_verdict() -> None:
    """What is completed has to grow, and its sender to live."""
    watch = LoadWatch(lambda: True)
    assert watch.why_not(verdict(7)) == watch.why_not(verdict(7)) != ""
    assert watch.why_not(verdict(8)) == ""
    assert "dead" in LoadWatch(lambda: False).why_not(verdict(8))


def started(processor: str, host: str) -> dict[str, Any]:
    """A line of the kernel's witness."""
    return {"what": "started", "processor": processor, "host": host}


def carried_out(number: int, known: int, *, beside: int = 0) -> tuple[CarriedOut, int]:
    """At that length of the journal."""
    return CarriedOut(Fault(number, "kill host", 0, 1.0), "host-1", 0.0, beside), known


def test_joined_faults_share_one_downtime_and_no_replaced_active() -> None:
    """Each has what was started from it to the next one; their silence is counted once."""
    journal = [
        *(started("0", "a"), started("1", "b")),
        *(started("0", "c"), started("0-0", "a")),
        started("1", "b"),
    ]
    group = [carried_out(4, 2), carried_out(5, 4, beside=1)]
    first, second = befell(group, journal, {"0": 9_000, "1": 4_000}, 3.0)
    assert (first.replaced, first.failed_over) == (("0",), ("0",))
    assert (second.replaced, second.failed_over) == (("1",), ())
    assert first.group == second.group == 4
    report = Report(1, "broker", [first, second, befallen(5)])
    assert (report.downtime(0.5), report.downtime(1.0)) == (5, 9_000)
    told = report.to_json()
    assert (told["together"], told["failovers"], told["kinds"]) == (1, 3, {"kill host": 3})
    (unknown,) = befell([carried_out(1, 0)], [started("0", "a")], {}, 3.0)
    assert (unknown.replaced, unknown.downtime_ms) == (("0",), None), "nobody could tell"


def test_two_of_a_group_on_one_host_are_told() -> None:
    """The kernel's word; one that is frozen elsewhere while its successor runs is none of it."""

    def seen(processor: str, host: str) -> SimpleNamespace:
        return SimpleNamespace(processor=processor, host=host, pid=1)

    apart = {"what": "VIOLATION", "one": seen("0", "a"), "other": seen("0", "b")}
    beside = {"what": "VIOLATION", "one": seen("0", "a"), "other": seen("0-0", "a")}
    found = same_host([started("0", "a"), apart, beside])
    assert found == ["0 (pid 1) and 0-0 (pid 1) on a"]


def befallen(downtime_ms: int | None, rest_s: float | None = 1.0, number: int = 1) -> Befallen:
    """One fault, alone."""
    return Befallen(number, number, "kill host", "host-1", rest_s, ("0",), (), downtime_ms)


@pytest.mark.parametrize(
    "wrong",
    [
        {"missing": 1},
        {"unexplained": 1},
        {"history": "a hash"},
        {"load": "dead"},
        {"unjudged": ["a log"]},
        {"cut_short": ["KeyboardInterrupt"]},
        {"same_host": ["0 and 0-0 on a"]},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_run_is_good_only_when_every_judge_agrees(wrong: dict[str, Any]) -> None:
    assert Report(1, "broker", [befallen(5)]).is_good
    assert not Report(1, "broker", [befallen(5)], **wrong).is_good


def test_an_overlap_is_what_leases_cannot_exclude_and_the_brokers_fence_does() -> None:
    """And whoever never rests fails with either."""
    (returned,) = overlaps("t", 0, written_by(1, 2, 1))
    assert not Report(1, "broker", [befallen(5, None)]).is_good
    assert not Report(1, "broker", [thawed(0.0)], [returned]).is_good
    assert Report(1, "lease", [thawed(0.0)], [returned]).is_good


def thawed(at_s: float, kind: str = "freeze host") -> Befallen:
    """Was over then."""
    return replace(befallen(5), kind=kind, undone_s=at_s)


def overlap(from_ms: int, to_ms: int) -> Overlap:
    """Of that time."""
    return Overlap("t", 0, 7, 1, 2, from_ms, from_ms, to_ms)


def test_with_leases_alone_a_second_owner_may_write_as_a_frozen_host_thaws_and_else_never() -> None:
    """Not before, not when it should have ended, not in one that ends late; after no other fault."""
    faults = [befallen(5), thawed(100.0), thawed(300.0)]
    within = [overlap(100_200, 101_500), overlap(300_000, 300_000 + THAW_MS)]
    assert Report(1, "lease", faults, within).is_good
    for wrong in (
        overlap(99_000, 99_900),
        overlap(100_200, 100_000 + THAW_MS + 100),
        overlap(200_000, 200_100),
        overlap(100_200, 300_100),
    ):
        report = Report(1, "lease", faults, [*within, wrong])
        assert not report.is_good
        assert report.wrong_overlaps == [wrong]
        told = report.verdict()
        assert (told["overlaps"], told["overlaps_in_thaws"]) == (3, 2)
    assert not Report(1, "lease", [thawed(100.0, "stop agent")], within[:1]).is_good
    never_over = replace(befallen(5), kind="freeze host", undone_s=None)
    assert not Report(1, "lease", [never_over], within[:1]).is_good


def test_what_counts_of_a_return_is_when_the_replaced_one_wrote() -> None:
    """The successor comes back because the other was there, however late."""
    log = [RecordBatch(n, n + 1, producer, at_ms) for n, (producer, at_ms) in enumerate(
        [(1, 10), (2, 20), (1, 100), (1, 130), (2, 9_000)]
    )]  # fmt: skip
    returned, wrote_on = overlaps("t", 0, log)
    assert (returned.producer_id, returned.at_ms) == (1, 100)
    assert (wrote_on.producer_id, wrote_on.at_ms) == (2, 9_000)
    assert {(o.from_ms, o.to_ms) for o in (returned, wrote_on)} == {(100, 130)}


def test_a_run_that_is_to_show_that_the_judge_sees_fails_without_an_overlap() -> None:
    """And with one that leases exclude."""
    faults = [thawed(100.0)]
    blind = Report(1, "lease", faults, expects_overlaps=True)
    assert not blind.is_good
    assert replace(blind, overlaps=[overlap(100_200, 100_300)]).is_good
    assert not replace(blind, overlaps=[overlap(1, 2)]).is_good


def test_what_two_owners_of_one_changelog_lose_is_held_against_no_run_that_is_to_show_them() -> (
    None
):
    """The Joiner throws at a state that neither of them had, at every start; else nothing is lost."""
    mixed = overlap(100_200, 100_300)._replace(topic=demo_job.CHANGELOG_TOPIC)
    lost = [thawed(100.0), replace(thawed(200.0), rest_s=None)]
    harmed = Report(1, "lease", lost, [mixed], missing=9, missing_in=[0, 2], expects_overlaps=True)
    assert harmed.is_good
    assert not replace(harmed, missing_in=[0, 1]).is_good, "active 1 has a state of its own"
    assert not replace(harmed, expects_overlaps=False).is_good
    assert not replace(harmed, overlaps=[overlap(100_200, 100_300)]).is_good
    assert not replace(harmed, unexplained=1).is_good


@pytest.mark.parametrize("ends", [AssertionError("no log"), KeyboardInterrupt()])
def test_what_ends_a_run_early_leaves_its_report_and_the_reason(
    ends: BaseException, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File and verdict have what was seen by then; the run isn't good."""
    report = Report(7, "broker")

    def go() -> None:
        report.faults.append(befallen(5))
        raise ends

    console = Console(file=io.StringIO())
    told_whatever_happens(report, go, console, tmp_path / "results" / "chaos.json")
    told = json.loads(capsys.readouterr().out)
    assert (told["good"], told["faults"]) == (False, 1)
    assert told["cut_short"][0].startswith(type(ends).__name__)
    kept = json.loads((tmp_path / "results" / "chaos.json").read_text())
    assert [each["number"] for each in kept["each_fault"]] == [1]


OLD, NEW = 7, 8


def data_of(directory: Path, logs: Mapping[int, bytes]) -> dict[int, Path]:
    """Each broker's replica of one partition, by node id."""
    for node_id, log in logs.items():
        partition = directory / str(node_id) / "t-0"
        partition.mkdir(parents=True)
        (partition / "00000000000000000000.log").write_bytes(log)
    return {node_id: directory / str(node_id) for node_id in logs}


def test_what_a_replica_has_beyond_its_leader_was_never_written(tmp_path: Path) -> None:
    """The first broker led and took a batch of the old owner that no other got: it goes, as that
    replica comes in step, and was acknowledged to nobody. No second owner wrote; where the one that
    leads has it, it is judged, though the others lack it. Without a leader (-1) nothing is.
    """
    agreed = batch(0, 2, OLD) + batch(2, 1, NEW)
    data = data_of(tmp_path, {1: agreed + batch(3, 4, OLD), 2: agreed, 3: agreed})
    found = batches_of_leader(data, {0: 2}, "t", 0)
    assert [each.producer_id for each in found] == [OLD, NEW]
    assert overlaps("t", 0, found) == []
    assert len(overlaps("t", 0, batches_of_leader(data, {0: 1}, "t", 0))) == 1
    with pytest.raises(LookupError):
        batches_of_leader(data, {0: -1}, "t", 0)
