"""Audit records: their digest, and their form in a topic or a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.audit_log import decode_entry, encode_entry
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement.certificates import (
    AuditRecord,
    audit_from_json,
    audit_to_json,
    digest_of,
)
from samza_dagster.placement.state import End

pytestmark = pytest.mark.unit

RECORD = AuditRecord(
    number=7,
    kind="start",
    at_ms=1_795_264_716_232,
    deployment_id="1795264716232-abcdef01",
    group_id="0",
    processor_id="0",
    role="Active",
    execution_id="0-17",
    epoch=17,
    host="host-1",
    previous_hash="a" * 64,
    why="failover",
    fencing="lease",
    predecessor=End("0-3", 3, "host-2", "dead", 5, "exit 143"),
    others=(("0-0", "host-3"),),
    lag_records=12,
)

ASLEEP = {"execution_id": "0-3", "epoch": 3, "host": "h", "how": "asleep", "at_ms": 5}


def changed(**fields: Any) -> dict[str, Any]:
    document = json.loads(json.dumps(audit_to_json(RECORD)))
    return {name: value for name, value in (document | fields).items() if value is not ...}


@given(st.from_type(AuditRecord))
def test_any_record_is_read_back(record: AuditRecord) -> None:
    """Through the bytes of the topic, to an equal record with an equal digest."""
    again = decode_entry("t", TopicRecord(*encode_entry(record), 0, 3))
    assert again == record
    assert digest_of(again) == digest_of(record)


@given(st.from_type(AuditRecord))
def test_the_digest_is_of_the_canonical_json(record: AuditRecord) -> None:
    """Anybody can compute it: as it is written but `digest` and `version`, names sorted."""
    fields = audit_to_json(record)
    del fields["digest"], fields["version"]
    assert ("left_behind" in fields) == bool(record.left_behind)
    assert ("previous_at_ms" in fields) == (record.previous_at_ms is not None)
    assert ("grouping" in fields) == bool(record.grouping)
    assert ("spun_up_by" in fields) == bool(record.spun_up_by)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert digest_of(record) == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_of_a_record_stays_what_it_is() -> None:
    """Histories are kept for years: a change here breaks every chain."""
    assert digest_of(RECORD) == "0fbb436eb38a801e388dfe68d471d8968ca6f12a86a415357503e4ff495aa566"
    assert digest_of(dataclasses.replace(RECORD, digest="x")) == digest_of(RECORD)


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        ([], "no JSON object"),
        (None, "no JSON object"),
        (changed(version=2), "field version: 2 instead of 1"),
        (changed(version=True), "field version: True instead of 1"),
        (changed(version=...), "field version: None instead of 1"),
        (changed(weight=3), "field weight: a field that this release doesn't know"),
        (changed(epoch=...), "field epoch: missing"),
        (changed(epoch="17"), "field epoch: '17', no whole number"),
        (changed(epoch=None), "field epoch: None, no whole number"),
        (changed(number=True), "field number: True, no whole number"),
        (changed(lag_records=1.5), "field lag_records: 1.5, no whole number"),
        (changed(host=None), "field host: None, no text"),
        (changed(role="Observer"), "field role: 'Observer'"),
        (changed(kind="pause"), "field kind: 'pause'"),
        (changed(fencing="Lease"), "field fencing: 'Lease'"),
        (changed(fencing=""), "field fencing: ''"),
        (changed(others=[["0-0"]]), "field others[0]: ['0-0'], no array of 2"),
        (changed(others="0-0"), "field others: '0-0', no array"),
        (changed(others=[["0-0", 3]]), "field others[0][1]: 3, no text"),
        (changed(predecessor=ASLEEP), "field predecessor.how: 'asleep'"),
        (changed(predecessor="0-3"), "field predecessor: '0-3', no JSON object"),
        (changed(predecessor={}), "field predecessor.at_ms: missing"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(document: object, seen: str) -> None:
    """Nothing is guessed: the place, the field, and what stands there."""
    with pytest.raises(MalformedRecord) as refused:
        audit_from_json(document, "topic t, offset 41")
    assert refused.value.seen.startswith("topic t, offset 41")
    assert refused.value.seen.endswith(seen)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b"\xff"])
def test_bytes_that_are_no_object_are_told_with_their_offset(value: bytes | None) -> None:
    """A stranger's record in the topic is found, not skipped."""
    with pytest.raises(MalformedRecord, match="topic t, offset 41"):
        decode_entry("t", TopicRecord(None, value, 0, 41))
