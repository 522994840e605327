"""Whatever a stranger writes into either topic: parsed, answered, or ignored; never an exception."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.coordinator.mail import (
    Arrived,
    Ignored,
    Mail,
    Malformed,
    read_own_request,
    read_stream_request,
)
from samza_dagster.metadata.own_requests import read_mail
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.model.placement_messages import REQUEST, parse_response

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
STREAM: dict[str, Any] = {
    "uuid": UUID,
    "subType": REQUEST,
    "statusCode": "CREATED",
    "processorId": "0",
    "destinationHost": "host-1",
    "deploymentId": "run-1",
    "timestamp": 1_000,
    "requestExpiry": 10_000,
}
OWN: dict[str, Any] = {
    "version": 1,
    "kind": "place",
    "processorId": "0",
    "destinationHost": "host-1",
    "deploymentId": "run-1",
    "timestamp": 1_000,
    "requestExpiry": 10_000,
    "hold": True,
}
OPTIONAL = {"requestExpiry", "hold", "refersTo"}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(alphabet=st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def stream(value: Any) -> Mail | None:
    return read_stream_request(f"{UUID}.{REQUEST}", json.dumps(value).encode())


def own(value: Any) -> Mail | None:
    return read_own_request(f"request/{UUID}".encode(), json.dumps(value).encode())


def checked(mail: Mail | None) -> Mail | None:
    """Every answer can be written, and read by whoever knows Samza's form."""
    if isinstance(mail, Malformed):
        answer = mail.response(5)
        assert parse_response(answer.to_json().encode()) == answer
        assert str(uuid.UUID(mail.uuid)) == mail.uuid
        mail.key.encode()
        assert len(answer.to_json().encode()) < 20_000
        assert len(mail.key) < 300
    return mail


def test_both_forms_are_understood() -> None:
    """Every field arrives where the reducer looks for it."""
    theirs, ours = stream(STREAM), own({**OWN, "refersTo": UUID})
    assert isinstance(theirs, Arrived)
    assert isinstance(ours, Arrived)
    assert (theirs.ask.kind, theirs.ask.own, theirs.ask.expiry_ms) == (
        RequestKind.PLACE,
        False,
        10_000,
    )
    assert (ours.ask.own, ours.ask.hold, ours.ask.refers_to) == (True, True, UUID)


def test_a_fail_over_may_name_the_incarnation_that_it_is_about() -> None:
    """Nothing else may, and one without it is of whichever runs."""
    fail_over = {**OWN, "kind": "fail-over", "hold": False}
    named, plain = own({**fail_over, "executionId": "demo-0-000007"}), own(fail_over)
    assert isinstance(named, Arrived)
    assert isinstance(plain, Arrived)
    assert (named.ask.execution_id, plain.ask.execution_id) == ("demo-0-000007", "")
    for wrong in ({**fail_over, "executionId": ""}, {**OWN, "executionId": "demo-0-000007"}):
        mail = checked(own(wrong))
        assert isinstance(mail, Malformed)
        assert "executionId" in mail.why


def test_a_field_of_a_later_release_is_ignored() -> None:
    """So a client may be newer than its coordinator."""
    assert own({**OWN, "ofALaterRelease": 1}) == own(OWN)


@given(field=st.sampled_from(sorted(STREAM)), value=anything)
def test_any_value_of_any_field_on_samzas_wire(field: str, value: Any) -> None:
    """Taken, or answered BAD_REQUEST with the field named."""
    mail = checked(stream({**STREAM, field: value}))
    assert isinstance(mail, Arrived | Malformed)
    if isinstance(mail, Malformed) and "Invalid JSON" not in mail.why:
        assert field in mail.why


@given(field=st.sampled_from(sorted({*OWN, "refersTo", "executionId"})), value=anything)
def test_any_value_of_any_field_of_our_own(field: str, value: Any) -> None:
    """Taken, or answered BAD_REQUEST with the field named."""
    mail = checked(own({**OWN, field: value}))
    assert isinstance(mail, Arrived | Malformed)
    if isinstance(mail, Malformed) and "Invalid JSON" not in mail.why and field != "kind":
        assert field in mail.why


@pytest.mark.parametrize("field", sorted(OWN.keys() - OPTIONAL))
def test_a_field_that_we_need_is_named_when_it_is_missing(field: str) -> None:
    """The version first of all."""
    mail = checked(own({name: v for name, v in OWN.items() if name != field}))
    assert isinstance(mail, Malformed)
    assert field in mail.why


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": 2**63}, "timestamp"),
        ({"timestamp": "1000"}, "timestamp"),
        ({"requestExpiry": -1}, "requestExpiry"),
        ({"requestExpiry": 86_400_001}, "requestExpiry"),
        ({"processorId": ""}, "processorId"),
        ({"processorId": "x" * 256}, "processorId"),
        ({"destinationHost": "x" * 256}, "destinationHost"),
        ({"deploymentId": "x" * 1025}, "deploymentId"),
        ({"kind": "fail-over", "hold": False, "executionId": "x" * 201}, "executionId"),
        ({"kind": "explode"}, "kind"),
        ({"version": 2}, "version"),
        ({"version": True}, "version"),  # equals 1 in Python
        ({"hold": "yes"}, "hold"),
        *(({"kind": kind, "hold": False}, "refersTo") for kind in ("cancel", "commit", "release")),
        ({"kind": "cancel", "hold": False, "refersTo": "x"}, "refersTo"),
        ({"kind": "fail-over"}, "hold: a fail-over can't be held, only a place"),
    ],
)
def test_bounds_of_our_own(change: dict[str, Any], field: str) -> None:
    """Each names the field that is out of them."""
    mail = checked(own({**OWN, **change}))
    assert isinstance(mail, Malformed)
    assert f"field {field}" in mail.why.replace("Value error, ", "")


def test_the_longest_names_are_taken() -> None:
    """Of a host, a processor and an incarnation: as long as a name service and an agent let them be."""
    long = {"processorId": "p" * 255, "destinationHost": "\N{FOX FACE}" * 255}
    incarnation = {"kind": "fail-over", "hold": False, "executionId": "e" * 200}
    assert isinstance(own({**OWN, **long, **incarnation}), Arrived)
    assert isinstance(stream({**STREAM, **long}), Arrived)


@pytest.mark.parametrize("field", ["processorId", "destinationHost"])
def test_a_name_longer_than_any_hosts_is_refused_on_samzas_wire_too(field: str) -> None:
    """A thousand of them in a queue are more than a broker takes in one record."""
    mail = checked(stream({**STREAM, field: "x" * 256}))
    assert isinstance(mail, Malformed)
    assert field in mail.why


@pytest.mark.parametrize("name", [f"{'{' * 500_000}{UUID}", "-" * 500_000 + UUID])
def test_a_key_that_is_longer_than_any_of_a_request_is_ignored(name: str) -> None:
    """Python reads a UUID in it. Who compressed it can write one that nobody can delete again."""
    for mail in (
        read_stream_request(f"{name}.{REQUEST}", json.dumps(STREAM).encode()),
        read_own_request(f"request/{name}".encode(), json.dumps(OWN).encode()),
        read_own_request(f"request/{name}".encode() + b"\xff", json.dumps(OWN).encode()),
    ):
        assert isinstance(mail, Ignored)
        assert len(mail.why) < 500


@given(value=st.binary(max_size=200) | st.just(b"[" * 50_000) | st.just(b'{"a":' * 50_000))
def test_any_bytes_as_a_value(value: bytes) -> None:
    """Under a key with a UUID there is always an answer."""
    for mail in (
        read_stream_request(f"{UUID}.{REQUEST}", value),
        read_own_request(f"request/{UUID}".encode(), value),
    ):
        assert isinstance(checked(mail), Malformed)


@given(key=st.binary(max_size=60), prefix=st.booleans())
def test_any_bytes_as_a_key(key: bytes, prefix: bool) -> None:
    """No request's key is nobody's; a request's without a UUID is ignored, not answered."""
    mail = checked(
        read_own_request((b"request/" if prefix else b"") + key, json.dumps(OWN).encode())
    )
    assert mail is None or isinstance(mail, Arrived | Ignored | Malformed)
    if prefix and isinstance(mail, Ignored):
        assert mail.why


@given(key=st.text(max_size=60))
def test_any_text_as_a_key_of_samzas_namespace(key: str) -> None:
    """The same there, with half surrogate pairs, which JSON can bring."""
    for written in (key, f"{key}.{REQUEST}", f"\ud800{key}.{REQUEST}"):
        mail = read_stream_request(written, json.dumps(STREAM).encode())
        assert mail is None or isinstance(mail, Arrived | Ignored | Malformed)


@pytest.mark.parametrize(
    "name", [UUID.upper(), f"{{{UUID}}}", f"urn:uuid:{UUID}", UUID.replace("-", "")]
)
def test_a_uuid_in_another_form_is_refused_under_its_own_key(name: str) -> None:
    """It would be answered under one key and stay under another."""
    for mail in (
        read_stream_request(f"{name}.{REQUEST}", json.dumps(STREAM).encode()),
        read_own_request(f"request/{name}".encode(), json.dumps(OWN).encode()),
    ):
        assert isinstance(checked(mail), Malformed)
        assert mail.uuid == UUID
        assert name in mail.key


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"request/", b"response/", b"request", b""]), st.binary(max_size=50)
        ),
        max_size=5,
    ),
    st.binary(max_size=60),
)
def test_a_client_reads_any_mail(keys: list[tuple[bytes, bytes]], value: bytes) -> None:
    """What it can't read is named and left out."""
    records = [
        TopicRecord(prefix + rest, value, 0, number) for number, (prefix, rest) in enumerate(keys)
    ]
    mail = read_mail(records)
    assert len(mail.unreadable) == len(records)
