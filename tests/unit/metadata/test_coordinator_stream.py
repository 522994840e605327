"""The codec against every recorded record, and against any text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author

pytestmark = pytest.mark.unit

RECORDS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "wire" / "coordinator-stream.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
AUTHOR = Author("127.0.0.12", "root", 1795262286428)
TYPES = {value for name, value in vars(stream).items() if name.startswith("SET_")}


def test_every_recorded_key_is_written_byte_for_byte() -> None:
    """Compaction compares bytes: ours and Samza's key of the same thing are one record."""
    for record in RECORDS:
        key = stream.decode_key(record["key"].encode(), topic="t", offset=record["o"])
        assert stream.encode_key(key.namespace, key.key) == record["key"].encode()


def test_every_recorded_envelope_survives_a_round_trip() -> None:
    """Each type of message but the raw placement payloads."""
    seen = set()
    for record in RECORDS:
        key = stream.decode_key(record["key"].encode(), topic="t", offset=record["o"])
        if key.namespace in TYPES and record["value"] is not None:
            seen.add(key.namespace)
            envelope = stream.decode_envelope(record["value"].encode())
            assert json.loads(stream.encode_envelope(envelope)) == json.loads(record["value"])
    assert seen == TYPES


def test_a_processors_host_is_written_as_samza_writes_it() -> None:
    """Other records are judged by a whole job's (`test_job_metadata`)."""
    made = stream.set_container_host(AUTHOR, "1-0", "nm4")
    assert made.value is not None
    recorded = [json.loads(r["value"]) for r in RECORDS if r["key"].encode() == made.key_bytes()]
    assert json.loads(made.value)["values"] in [record["values"] for record in recorded]


def test_the_author_signs_as_samzas_writers_do() -> None:
    """Host, user and time in ms; the source that Samza's coordinator writes."""
    record = stream.set_changelog(AUTHOR, "Standby-Partition 1-0", 1)
    assert record.value == (
        b'{"host":"127.0.0.12","source":"SamzaContainer","values":{"Partition":"1"},'
        b'"username":"root","timestamp":1795262286428}'
    )


def test_control_characters_are_escaped_as_jackson_does() -> None:
    """Upper-case hex, the short forms where there are any, everything else raw."""
    assert stream.encode_key("n", '\x1f\x0b\t"\\/é😀\x7f') == (
        '[1,"n","\\u001F\\u000B\\t\\"\\\\/é😀\x7f"]'.encode()
    )


@given(st.text(), st.text())
def test_any_key_reads_back(namespace: str, key: str) -> None:
    """And is JSON that any parser reads the same way."""
    data = stream.encode_key(namespace, key)
    assert stream.decode_key(data, topic="t", offset=0) == stream.StreamKey(namespace, key)
    assert json.loads(data) == [1, namespace, key]


def test_a_key_without_utf8_form_is_refused() -> None:
    """A lone surrogate can't be written by anybody."""
    with pytest.raises(InvalidInput):
        stream.encode_key("n", "\ud800")


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"x",
        b"\xff",
        b"{}",
        b"[1]",
        b'["1","a","b"]',
        b'[1,"a",null]',
        b'[1,"a","b",2]',
        b"[" * 100_000,
    ],
    ids=str,
)
def test_a_key_that_cannot_be_read_is_told_with_topic_and_offset(data: bytes | None) -> None:
    """Of whatever shape."""
    with pytest.raises(MalformedRecord, match="topic t, offset 7, key"):
        stream.decode_key(data, topic="t", offset=7)


def test_a_key_of_another_version_is_read_as_samzas_readers_do() -> None:
    """They take its type and what it is about, and look at nothing else (`CoordinatorStreamStore`)."""
    assert stream.decode_key(b'[2,"a","b"]') == stream.StreamKey("a", "b")


@given(st.binary(max_size=100))
def test_no_bytes_break_the_codec(data: bytes) -> None:
    """A result or MalformedRecord, nothing else."""
    for decode in (lambda d: stream.decode_key(d, topic="t", offset=0), stream.decode_envelope):
        with suppress(MalformedRecord):
            decode(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"{}", "field values"),
        (b'{"values":[]}', "field values"),
        (b'{"values":{"a":1}}', r"field values\.a"),
        (b"[]", "no object"),
        (b"nope", "no JSON"),
    ],
)
def test_a_bad_envelope_is_refused_by_the_name_of_its_field(data: bytes, what: str) -> None:
    """Samza's readers need the values alone."""
    with pytest.raises(MalformedRecord, match=what):
        stream.decode_envelope(data)
    assert stream.decode_envelope(b'{"values":{"a":"b","c":null}}').values == {"a": "b"}
