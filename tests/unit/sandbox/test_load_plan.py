"""The load: deterministic, never ahead of what the Joiner accepts, hard to compress."""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import InvalidInput
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
