"""Two owners of one active, planted in every form in which the broker's log can show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.sandbox.broker_log import Overlap, RecordBatch
from tests.chaos.owners import (
    CLOCKS_MS,
    Log,
    Reign,
    beyond_their_reigns,
    judged,
    reigns,
    uncertified,
)

pytestmark = pytest.mark.unit

A, B, C, OTHER = 11, 12, 13, 21
"""Producers of active 0, one after the other, and the one of active 1."""
REIGNS = {
    "0": [Reign("a", 0, 0), Reign("b", 1_000, 1_200)],
    "1": [Reign("z", 0, 0)],
}


def log(topic: str, partition: int, *written: tuple[int, int]) -> Log:
    """Batches of one record, by (time in ms, producer), dated by the broker."""
    return Log(
        topic,
        partition,
        [RecordBatch(n, n + 1, by, at, True) for n, (at, by) in enumerate(written)],
    )


def changelogs(*of_0: tuple[int, int]) -> dict[str, list[Log]]:
    """One partition of each active; active 1 has one owner."""
    return {"0": [log("changelog", 0, *of_0)], "1": [log("changelog", 1, (5, OTHER))]}


RIGHT = changelogs((10, A), (900, A), (1_500, B), (1_600, B))
OUTPUT = log("out", 0, (10, A), (20, OTHER), (900, A), (1_000, OTHER), (1_500, B), (1_600, OTHER))


def judge(
    of_changelogs: dict[str, list[Log]], *outputs: Log
) -> tuple[list[Overlap], Sequence[str]]:
    """Active 0 had two owners that worked."""
    return judged(of_changelogs, outputs, REIGNS, {"0": 2, "1": 1})


def test_owners_one_after_the_other_are_no_overlap_though_actives_write_outputs_in_turns() -> None:
    """An output's partition has the keys of several actives: only one active's own count as turns."""
    assert judge(RIGHT, OUTPUT) == ([], [])


def test_who_comes_back_in_an_output_alone_was_a_second_owner() -> None:
    """The changelogs show nothing; the other active's batches between aren't what tells."""
    planted = log(
        "out", 2, (900, A), (950, OTHER), (1_100, B), (1_150, OTHER), (1_190, A), (1_400, B)
    )
    found, reasons = judge(RIGHT, OUTPUT, planted)
    assert reasons == []
    # The owner that goes on after a zombie's batch counts as a return, too.
    assert [(o.topic, o.partition, o.offset, o.producer_id, o.other) for o in found] == [
        ("out", 2, 4, A, B),
        ("out", 2, 5, B, A),
    ]


def test_who_comes_back_in_a_changelog_was_a_second_owner() -> None:
    """As before."""
    found, _ = judge(changelogs((10, A), (1_100, B), (1_150, A)), OUTPUT)
    assert [(o.topic, o.offset, o.producer_id, o.other) for o in found] == [("changelog", 2, A, B)]


@pytest.mark.parametrize("where", ["changelog", "output"])
def test_who_writes_after_the_successors_release_and_before_its_first_batch_is_seen(
    where: str,
) -> None:
    """A A B: no producer returns, and the second batch came when the tasks were B's."""
    late = ((10, A), (1_300, A), (1_500, B))
    if where == "changelog":
        found, _ = judge(changelogs(*late), OUTPUT)
    else:
        found, _ = judge(RIGHT, log("out", 0, *late))
    (told,) = found
    assert (told.offset, told.producer_id, told.other, told.at_ms) == (1, A, B, 1_300)
    assert told.how == "wrote 100 ms after b was released"


def test_what_was_written_up_to_the_release_was_the_predecessors_to_write() -> None:
    """The decision comes before the release; two readings of a clock differ by a little."""
    until = 1_200 + CLOCKS_MS
    assert judge(changelogs((10, A), (until, A), (1_500, B)), OUTPUT) == ([], [])
    found, _ = judge(changelogs((10, A), (until + 1, A), (1_500, B)), OUTPUT)
    assert len(found) == 1


def test_a_zombie_that_first_writes_after_its_successors_release_is_seen() -> None:
    """It was frozen before its first batch: by that batch's date alone it would be B."""
    logs = [log("changelog", 0, (10, A), (2_100, B), (2_200, C))]
    three = [Reign("a", 0, 0), Reign("b", 1_000, 1_000), Reign("c", 2_000, 2_000)]
    (told,) = beyond_their_reigns(logs, three)
    assert (told.producer_id, told.other, told.offset) == (B, C, 1)
    assert "after c was released" in told.how


def test_more_writers_than_incarnations_are_seen() -> None:
    """Somebody wrote who was never started, or as whom somebody else was."""
    logs = [log("changelog", 0, (10, A), (20, B))]
    (told,) = beyond_their_reigns(logs, [Reign("a", 0, 0)])
    assert (told.producer_id, told.other, told.how) == (A, B, "wrote as no incarnation")


def test_an_incarnation_that_wrote_nothing_ends_the_one_before_it_all_the_same() -> None:
    """B was released and died before its first batch; A went on meanwhile, and C came."""
    three = [Reign("a", 0, 0), Reign("b", 1_000, 1_000), Reign("c", 2_000, 2_000)]
    assert beyond_their_reigns([log("t", 0, (900, A), (2_100, C))], three) == []
    (told,) = beyond_their_reigns([log("t", 0, (900, A), (1_400, A), (2_100, C))], three)
    assert told.how == "wrote 400 ms after b was released"


def test_outputs_of_nobody_and_too_few_writers_cannot_be_judged() -> None:
    """Whose they are is read from the changelogs; without a name, or an active, nothing is proved."""
    _, nameless = judge(RIGHT, OUTPUT, log("out", 1, (10, -1)))
    assert nameless == ["out 1: 1 of 1 batches name no producer"]
    _, strangers = judge(RIGHT, OUTPUT, log("out", 1, (10, 99)))
    assert strangers == ["out 1: producers [99] are of no active, by the changelogs"]
    _, few = judge(RIGHT, log("out", 0, (10, A), (20, OTHER)))
    assert few == ["out: 1 producers of active 0, but 2 owners had worked"]
    _, empty = judge(RIGHT, OUTPUT, log("out", 1))
    assert empty == ["out 1: 0 producers, but 1 owners had worked"]


def test_a_producer_of_two_actives_and_dates_of_producers_cannot_be_judged() -> None:
    """A date that a producer gave says nothing of when its batch came."""
    mixed = {"0": RIGHT["0"], "1": [log("changelog", 1, (5, A))]}
    _, reasons = judge(mixed, OUTPUT)
    assert "changelog 1: producer 11 is of two actives" in reasons
    undated = Log(
        "changelog", 0, [each._replace(by_broker=False) for each in RIGHT["0"][0].batches]
    )
    _, reasons = judge({**RIGHT, "0": [undated]}, OUTPUT)
    assert reasons == ["changelog 0: not dated by the broker"]


def start(number: int, execution: str, at_ms: int, processor: str = "0") -> AuditRecord:
    """A certificate."""
    return AuditRecord(
        number, "start", at_ms, "d", "0", processor, "active", execution, number, "host-1", ""
    )


def released(execution: str, at_s: float) -> dict[str, Any]:
    """A line of the kernel's witness."""
    return {"what": "started", "execution": execution, "at": at_s}


def test_reigns_are_dated_by_the_decision_until_somebody_watches_and_by_the_release_from_then_on() -> (
    None
):
    """One that was decided on and never released owned nothing; standbys own nothing."""
    history = [
        start(1, "gone", 100),
        start(2, "a", 200),
        start(3, "s", 200, "0-0"),
        start(4, "b", 6_000),
        start(5, "unreleased", 7_000),
        start(6, "c", 8_000),
    ]
    journal = [released("a", 5.0), released("s", 5.0), released("b", 6.5), released("c", 8.25)]
    assert reigns(history, journal, 2) == {
        "0": [
            Reign("gone", 100, 100),
            Reign("a", 200, 200),
            Reign("b", 6_000, 6_500),
            Reign("c", 8_000, 8_250),
        ]
    }


def test_who_was_released_before_its_start_stood_on_record_is_told() -> None:
    """By the kernel's witness; a violation of its own isn't a start."""
    history = [start(1, "a", 200), start(2, "b", 9_000)]
    journal: list[dict[str, Any]] = [released("a", 5.0), {"what": "VIOLATION", "at": 5.0}]
    assert uncertified(history, journal) == []
    assert uncertified(history, [*journal, released("b", 8.0), released("x", 8.0)]) == [
        "b was released 1000 ms before its start on record",
        "x was released without a start on record",
    ]
