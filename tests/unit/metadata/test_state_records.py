"""Records of the state topic: the version, and what can't be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.state_topic import decode_record, encode_record
from samza_dagster.metadata.topic_reader import TopicRecord

pytestmark = pytest.mark.unit

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(st.text().filter(lambda name: name != "version"), plain, max_size=4)


@given(st.text(), fields)
def test_any_record_reads_back(key: str, value: dict[str, object]) -> None:
    """With its offset and time, and the version in the value."""
    key_bytes, value_bytes = encode_record(key, value)
    record = decode_record("t", TopicRecord(3, 7, key_bytes, value_bytes))
    assert (record.key, record.offset, record.timestamp_ms) == (key, 3, 7)
    assert record.value == {"version": 2, **value}


def test_a_deletion_has_no_value() -> None:
    """It is no record of a snapshot, but a watch tells it."""
    assert encode_record("k", None) == (b"k", None)
    assert decode_record("t", TopicRecord(0, 0, b"k", None)).value is None


@pytest.mark.parametrize("version", [0, 3, "1", True, 1.0, None])
def test_another_version_is_refused(version: object) -> None:
    """By topic, offset and key; whoever doesn't know a version must not lead on it."""
    value = json.dumps({"version": version}).encode()
    with pytest.raises(MalformedRecord, match="topic t, offset 9: key k, field version"):
        decode_record("t", TopicRecord(9, 0, b"k", value))


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"\xff", b"{}"), (b"k", b""), (b"k", b"[]"), (b"k", b"\xff")]
)
def test_what_cannot_be_read_is_refused(key: bytes | None, value: bytes) -> None:
    """Whatever it is, with its offset."""
    with pytest.raises(MalformedRecord, match="topic t, offset 9"):
        decode_record("t", TopicRecord(9, 0, key, value))
