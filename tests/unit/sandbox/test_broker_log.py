"""What the broker's log shows of a second owner."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.sandbox.broker_log import RecordBatch, overlaps, parse

pytestmark = pytest.mark.unit


def written_by(*producers: int) -> list[RecordBatch]:
    """Batches of one record each."""
    return [RecordBatch(n, n + 1, producer, n) for n, producer in enumerate(producers)]


@given(st.lists(st.integers(0, 3), max_size=30))
def test_every_writer_that_comes_back_after_another_was_a_second_owner(
    producers: list[int],
) -> None:
    """Counted a second time: the changes of writer, less the first run of each."""
    changes = sum(a != b for a, b in zip([None, *producers], producers, strict=False))
    assert len(overlaps("t", 0, written_by(*producers))) == changes - len(set(producers))
    (found,) = overlaps("t", 3, written_by(1, 2, 1))
    assert (found.partition, found.offset, found.producer_id, found.other) == (3, 2, 1, 2)


def test_what_counts_of_a_return_is_when_the_replaced_one_wrote() -> None:
    """The successor comes back because the other was there, however late."""
    written = [(1, 10), (2, 20), (1, 100), (1, 130), (2, 9_000)]
    log = [RecordBatch(n, n + 1, producer, at) for n, (producer, at) in enumerate(written)]
    returned, wrote_on = overlaps("t", 0, log)
    assert (returned.producer_id, returned.at_ms) == (1, 100)
    assert (wrote_on.producer_id, wrote_on.at_ms) == (2, 9_000)
    assert {(o.from_ms, o.to_ms) for o in (returned, wrote_on)} == {(100, 130)}


def test_batches_are_read_as_the_broker_writes_them() -> None:
    """Markers of transactions are no writes, and a torn tail is none yet."""

    def batch(first: int, records: int, producer: int, attributes: int = 0) -> bytes:
        body = struct.pack(
            ">iBIhiqqqhii", 0, 2, 0, attributes, records - 1, 5, 9, producer, 0, 0, records
        )
        return struct.pack(">qi", first, len(body)) + body

    data = batch(0, 3, 7) + batch(3, 1, 8, attributes=0x20) + batch(4, 2, 9)
    assert parse(data) == [RecordBatch(0, 3, 7, 9), RecordBatch(4, 6, 9, 9)]
    assert parse(data[:-1]) == [RecordBatch(0, 3, 7, 9)]
    assert parse(b"") == []
    assert parse(batch(0, 1, 7, attributes=0x08)) == [RecordBatch(0, 1, 7, 9, True)]
