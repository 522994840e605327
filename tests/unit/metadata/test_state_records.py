"""Records of the state topic: the version, and what can't be read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import state_topic
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import (
    Snapshot,
    StateReader,
    StateRecord,
    decode_record,
    encode_record,
)
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
    record = decode_record("t", TopicRecord(key_bytes, value_bytes, 7, 3))
    assert (record.key, record.offset, record.timestamp_ms) == (key, 3, 7)
    assert record.value == {"version": 1, **value}


def test_a_deletion_has_no_value() -> None:
    """It is no record of a snapshot, but a watch tells it."""
    assert encode_record("k", None) == (b"k", None)
    assert decode_record("t", TopicRecord(b"k", None, 0, 0)).value is None


@pytest.mark.parametrize("version", [0, 2, "1", True, 1.0, None])
def test_another_version_is_refused(version: object) -> None:
    """By topic, offset and key; whoever doesn't know a version must not lead on it."""
    value = json.dumps({"version": version}).encode()
    with pytest.raises(MalformedRecord, match="topic t, offset 9: key k, field version"):
        decode_record("t", TopicRecord(b"k", value, 0, 9))


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"\xff", b"{}"), (b"k", b""), (b"k", b"[]"), (b"k", b"\xff")]
)
def test_what_cannot_be_read_is_refused(key: bytes | None, value: bytes) -> None:
    """Whatever it is, with its offset."""
    with pytest.raises(MalformedRecord, match="topic t, offset 9"):
        decode_record("t", TopicRecord(key, value, 0, 9))


OURS = [
    b"job",
    b"leader",
    b"deployment",
    b"take-over",
    b"group/0",
    b"group/\xff",
    b"host/h",
    b"uuid/u",
    b"refused/u",
]
FOREIGN = [
    None,
    b"",
    b"\xff",
    b"x",
    b"jobs",
    b"leader/",
    b"groups/0",
    b"group",
    b"Job",
    b"request",
    b"tombstone",
]
JUNK = [b"\x00\xff", b"{}", b'{"version":99}', b"[" * 50_000]


def snapshot(monkeypatch: pytest.MonkeyPatch, *written: tuple[bytes | None, bytes]) -> Snapshot:
    """As a take-over, and every client, reads a topic with these records."""
    records = [TopicRecord(key, value, 0, n) for n, (key, value) in enumerate(written)]

    class Reader:
        def __init__(self, *_: object, **__: object) -> None: ...

        def read_until(self, _: int, keep: Callable[[TopicRecord], None], __: float) -> None:
            for record in records:
                keep(record)

        def close(self) -> None: ...

    monkeypatch.setattr(state_topic, "TopicReader", Reader)
    return state_topic.read_snapshot(KafkaCluster("h:1"), "t", end=len(records), timeout_s=1.0)


@pytest.mark.parametrize("junk", JUNK)
def test_bytes_under_a_key_that_isnt_ours_keep_nobody_from_leading(
    monkeypatch: pytest.MonkeyPatch, junk: bytes
) -> None:
    """They are nobody's state: left out, and told of. So is a record of them that could be read."""
    strange = [(key, value) for key in FOREIGN for value in (b'{"version":1}', junk)]
    readable = b'{"version":1}'
    found = snapshot(monkeypatch, (b"job", readable), (b"y", readable), *strange)
    assert list(found.records) == ["job"]
    assert [(record.key, record.value) for record in found.foreign] == [
        (b"y", readable),
        *((key, junk) for key in FOREIGN),
    ]
    assert found.mail == ()


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("key", OURS)
def test_a_key_of_ours_that_cant_be_read_is_refused_by_its_offset(
    monkeypatch: pytest.MonkeyPatch, key: bytes, junk: bytes
) -> None:
    """Whoever leads on a state that it doesn't understand destroys it."""
    with pytest.raises(MalformedRecord, match="topic t, offset 1"):
        snapshot(monkeypatch, (b"x", junk), (key, junk))


@given(st.binary(max_size=12))
def test_any_key_is_ours_or_a_clients_or_nobodys(key: bytes) -> None:
    """By its name alone."""
    assert not (state_topic.is_state(key) and state_topic.is_mail(key))
    assert all(state_topic.is_state(key) for key in OURS)
    assert not any(state_topic.is_state(key) or state_topic.is_mail(key) for key in FOREIGN)


def test_a_watch_takes_nothing_foreign_for_state_or_for_a_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who waits for a leader to fall silent would wait for whoever writes there."""
    taps: list[Callable[[TopicRecord], None]] = []

    class Tail:
        def __init__(self, *arguments: object, **_: object) -> None:
            taps.append(arguments[3])  # pyright: ignore[reportArgumentType]

    reader = StateReader("h:1", "t")
    monkeypatch.setattr(state_topic, "TopicTail", Tail)
    monkeypatch.setattr(reader._end, "offset", lambda *_, **__: 0)  # pyright: ignore[reportUnknownLambdaType]
    seen: list[StateRecord] = []
    bad: list[MalformedRecord] = []
    mail: list[TopicRecord] = []
    foreign: list[TopicRecord] = []
    reader.watch(seen.append, on_malformed=bad.append)
    reader.watch_mail(mail.append, on_foreign=foreign.append)
    for tap in taps:
        for key in (b"job", b"request/x", *FOREIGN):
            tap(TopicRecord(key, b'{"version":1}', 0, 0))
            tap(TopicRecord(key, None, 0, 0))
    assert [record.key for record in seen] == ["job", "job"]
    assert bad == []
    assert [record.key for record in mail] == [b"request/x"] * 2
    assert [record.key for record in foreign] == FOREIGN
