"""The judge's book: what is missing, twice or made up, and how long a partition was silent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.sandbox.ledger import LoadLedger, parse_part

pytestmark = pytest.mark.unit


def _complete(
    ledger: LoadLedger, key: bytes, epoch: int, partition: int = 0, at_ms: int = 1 << 50
) -> None:
    for part in range(ledger.parts):
        ledger.add_input(partition, key, b"%d-Partition %d" % (epoch, part), at_ms)


def test_what_is_missing_is_named_in_the_order_of_partitions_and_not_of_reading() -> None:
    """Partitions are read in any order; whoever compares two verdicts wants one."""
    ledger = LoadLedger()
    _complete(ledger, b"late", 0, partition=3)
    _complete(ledger, b"early", 0, partition=2)
    ledger.add_input(0, b"incomplete", b"0-Partition 1")
    assert ledger.describe(ledger.missing, limit=1) == ["partition 2 key early… epoch 0"]
    assert ledger.partitions_of(ledger.missing) == (2, 3)


def test_an_output_settles_it_once_and_counts_twice_as_duplicate() -> None:
    """At-least-once: the second one is told apart."""
    ledger = LoadLedger()
    _complete(ledger, b"k", 0)
    ledger.add_output(b"k", b"0", 5)
    ledger.add_output(b"k", b"0", 6)
    assert not ledger.missing
    assert ledger.duplicates == 1


def test_an_output_that_no_input_explains_stays_early() -> None:
    """Made up, until the inputs that explain it are read."""
    ledger = LoadLedger()
    ledger.add_output(b"k", b"1", 5)
    assert len(ledger.early) == 1
    _complete(ledger, b"k", 1)
    assert not ledger.early
    assert not ledger.missing


def test_a_part_sent_twice_demands_no_second_output() -> None:
    """A restarted load may repeat parts."""
    ledger = LoadLedger()
    _complete(ledger, b"k", 0)
    ledger.add_output(b"k", b"0", 1)
    _complete(ledger, b"k", 0)
    assert not ledger.missing
    assert ledger.completed == 1


@given(
    keys=st.integers(1, 20),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 999),
    lost=st.integers(0, 5),
)
def test_counts_exactly_what_was_lost_whatever_the_order(
    keys: int, epochs: int, seed: int, lost: int
) -> None:
    """Inputs and outputs come from two topics: their order says nothing."""
    every = [(b"%d" % key, epoch) for key in range(keys) for epoch in range(epochs)]
    dice = random.Random(seed)
    gone = set(dice.sample(every, min(lost, len(every))))
    ledger = LoadLedger()
    steps = [("in", entry) for entry in every] + [("out", e) for e in every if e not in gone]
    dice.shuffle(steps)
    for kind, (key, epoch) in steps:
        if kind == "in":
            _complete(ledger, key, epoch)
        else:
            ledger.add_output(key, b"%d" % epoch, 1)
    assert len(ledger.missing) == len(gone)
    assert not ledger.early
    assert ledger.duplicates == 0


def _steady(ledger: LoadLedger, times: list[int], partition: int = 0) -> None:
    for number, time in enumerate(times):
        key = b"%d/%d" % (partition, number)
        _complete(ledger, key, 0, partition)
        ledger.add_output(key, b"0", time)


def test_downtime_is_the_longest_silence_against_the_usual_one() -> None:
    """Of the partition and the window asked for; others don't hide it."""
    ledger = LoadLedger()
    _steady(ledger, [*range(0, 1000, 10), *range(6000, 7000, 10)])
    _steady(ledger, list(range(0, 7000, 10)), partition=1)
    gap = ledger.longest_gap(0, 0, 6990)
    assert gap is not None
    assert (gap.gap_ms, gap.from_ms, gap.to_ms, gap.usual_ms) == (5010, 990, 6000, 10)
    for other in (ledger.longest_gap(1, 0, 6990), ledger.longest_gap(0, 6100, 6900)):
        assert other is not None
        assert other.gap_ms == 10


def test_a_silence_that_lasts_until_now_counts() -> None:
    """A task that never came back isn't overlooked."""
    ledger = LoadLedger()
    _steady(ledger, list(range(0, 1000, 10)))
    gap = ledger.longest_gap(0, 500, 9000)
    assert gap is not None
    assert gap.gap_ms == 9000 - 990


def test_a_silence_without_inputs_is_no_downtime() -> None:
    """A load that ended leaves nothing to put out."""
    ledger = LoadLedger()
    for number in range(100):
        _complete(ledger, b"%d" % number, 0, at_ms=number * 10)
        ledger.add_output(b"%d" % number, b"0", number * 10 + 3)
    gap = ledger.longest_gap(0, 500, 9000)
    assert gap is not None
    assert gap.gap_ms == 10


@pytest.mark.parametrize("value", [b"", b"3", b"x-Partition 1", b"1-Partition"])
def test_a_foreign_record_is_named(value: bytes) -> None:
    """It is not silently skipped."""
    with pytest.raises(MalformedRecord):
        parse_part(value)
