"""The load and its book: what is sent, what is missing, and how long a partition was silent."""

from __future__ import annotations

import itertools
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.sandbox.ledger import LoadLedger, parse_part
from samza_dagster.sandbox.load_plan import KEY_BYTES, LoadPlan

pytestmark = pytest.mark.unit


class Joiner:
    """Samza's Joiner, as far as it refuses: an epoch that begins with parts missing."""

    def __init__(self, parts: int, *, replays: bool = False) -> None:
        self._parts = parts
        self._replays = replays
        self.state: dict[int, tuple[int, frozenset[int]]] = {}
        self.completed: list[tuple[int, int]] = []

    def process(self, key: int, epoch: int, part: int) -> None:
        current, seen = self.state.get(key, (epoch, frozenset()))
        if epoch < current and self._replays:
            return
        assert epoch >= current, "an older epoch would be ignored: its completion is lost"
        if epoch > current:
            assert len(seen) == self._parts, "the Joiner throws here"
            seen = frozenset()
        seen |= {part}
        self.state[key] = (epoch, seen)
        if len(seen) == self._parts:
            self.completed.append((key, epoch))


plans = st.builds(
    LoadPlan,
    keys=st.integers(4, 60),
    partitions=st.integers(1, 8),
    rate=st.floats(1, 5000),
    spread_s=st.floats(0, 20),
    parts=st.integers(2, 4),
)


@given(plan=plans, visits=st.integers(0, 300))
def test_the_joiner_never_throws_and_every_epoch_completes_once(
    plan: LoadPlan, visits: int
) -> None:
    """For any number of keys, rate and spread, also when a round is short."""
    joiner = Joiner(plan.parts)
    for part in plan.fill():
        joiner.process(*part)
    assert sorted(joiner.completed) == [(key, 0) for key in range(plan.keys)]
    for parts in itertools.islice(plan.steady(), visits):
        for part in parts:
            joiner.process(*part)
    assert len(set(joiner.completed)) == len(joiner.completed)


@given(plan=plans, stopped_at=st.integers(0, 100), more=st.integers(1, 100))
def test_goes_on_after_a_stop_as_if_there_had_been_none(
    plan: LoadPlan, stopped_at: int, more: int
) -> None:
    """The position alone decides what comes next."""
    whole = list(itertools.islice(plan.steady(), stopped_at + more))
    assert list(itertools.islice(plan.steady(stopped_at), more)) == whole[stopped_at:]


@given(plan=plans, killed_at=st.integers(1, 200), back=st.integers(0, 200))
def test_a_joiner_killed_between_the_delete_and_the_put_of_a_new_epoch_goes_on(
    plan: LoadPlan, killed_at: int, back: int
) -> None:
    """The key's state is gone, and what is read again is shorter than a round's rest.

    Such a Joiner threw at each of its starts: a round of 16 s with its parts 12 s apart,
    and a checkpoint 4.9 s old.
    """
    sent = [(part,) for part in plan.fill()] + list(itertools.islice(plan.steady(), 300))
    visits = [parts for parts in sent if parts]
    killed_at += plan.keys * plan.parts
    checkpoint = max(0, killed_at - min(back, plan.lag - 1))
    joiner = Joiner(plan.parts, replays=True)
    for parts in visits[:killed_at]:
        for part in parts:
            joiner.process(*part)
    for key, epoch, part in visits[killed_at]:
        if part == 0 and epoch:
            joiner.state.pop(key, None)
    for parts in visits[checkpoint:]:
        for part in parts:
            joiner.process(*part)


def test_one_seed_one_load() -> None:
    """Its keys are as long as promised, on disk too, whatever RocksDB compresses with."""
    plan = LoadPlan(keys=10, partitions=4, seed=7)
    assert plan.key_text(3) == LoadPlan(keys=99, partitions=2, seed=7).key_text(3)
    assert plan.key_text(3) != LoadPlan(keys=10, partitions=4, seed=8).key_text(3)
    keys = "".join(map(plan.key_text, range(100))).encode()
    assert len(keys) == 100 * KEY_BYTES
    assert len(zlib.compress(keys, 9)) > 0.8 * len(keys)
    assert LoadPlan.for_state(50, actives=2).keys * KEY_BYTES == 2 * 50_000_000


def test_refuses_a_load_that_can_not_be() -> None:
    """Named with what was given."""
    with pytest.raises(InvalidInput, match="rate"):
        LoadPlan(keys=10, partitions=4, rate=0)


# The judge's book: what is missing, twice or made up, and how long a partition was silent.


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
