"""What the chaos run judges by: the broker's batches, and its own schedule and sums."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.broker_log import Batch, overlaps, parse
from tests.chaos.report import Befallen, Report, nearest_rank
from tests.chaos.schedule import KINDS, schedule

pytestmark = pytest.mark.unit


def written_by(*producers: int) -> list[Batch]:
    """Batches of one record each."""
    return [Batch(n, n + 1, producer, n) for n, producer in enumerate(producers)]


def batch(first: int, records: int, producer: int, *, control: bool = False) -> bytes:
    """A batch of format 2 with nothing in it but its header."""
    body = struct.pack(
        ">iBIhiqqqhii", 0, 2, 0, 0x20 if control else 0, records - 1, 5, 9, producer, 0, 0, records
    )
    return struct.pack(">qi", first, len(body)) + body


def test_one_writer_after_another_is_no_overlap() -> None:
    """Each has one run; a successor may have successors."""
    assert overlaps("t", 0, written_by(1, 1, 2, 2, 2, 3)) == []


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
    assert parse(data) == [Batch(0, 3, 7, 9), Batch(4, 6, 9, 9)]
    assert parse(data[:-1]) == [Batch(0, 3, 7, 9)]
    assert parse(b"") == []


def test_a_seed_is_a_schedule_and_no_kind_is_left_out() -> None:
    """Each kind as often as the others, but for one."""
    faults = list(schedule(3, 50))
    assert faults == list(schedule(3, 50))
    assert faults != list(schedule(4, 50))
    counted = Counter(fault.kind for fault in faults)
    assert set(counted) == set(KINDS)
    assert max(counted.values()) - min(counted.values()) <= 1


def befallen(downtime_ms: int | None, rest_s: float | None = 1.0) -> Befallen:
    """One fault."""
    return Befallen(1, "kill host", "host-1", rest_s, ("0",), (), downtime_ms)


def test_a_run_is_good_only_when_every_judge_agrees() -> None:
    """An overlap is what leases can't exclude, and the broker's fence does."""
    (overlap,) = overlaps("t", 0, written_by(1, 2, 1))
    assert Report(1, "broker", [befallen(5)]).is_good
    assert not Report(1, "broker", [befallen(5)], missing=1).is_good
    assert not Report(1, "broker", [befallen(5)], unexplained=1).is_good
    assert not Report(1, "broker", [befallen(5)], history="a hash").is_good
    assert not Report(1, "broker", [befallen(5, None)]).is_good
    assert not Report(1, "broker", [befallen(5)], [overlap]).is_good
    assert Report(1, "lease", [befallen(5)], [overlap]).is_good


def test_quantiles_are_of_what_was_measured() -> None:
    """No fault that replaced nobody counts; the nearest rank, never between two."""
    report = Report(1, "broker", [befallen(n) for n in (40, 10, 30, 20)] + [befallen(None)])
    assert (report.downtime(0.5), report.downtime(0.99)) == (20, 40)
    assert nearest_rank([], 0.5) is None
