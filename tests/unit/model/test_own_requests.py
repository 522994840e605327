"""Requests of our own on the wire: what is refused, and by which field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.own_requests import OwnRequest, RequestKind, parse_own_request

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
FAIL_OVER: dict[str, Any] = {
    "version": 1,
    "kind": "fail-over",
    "processorId": "0",
    "destinationHost": "STANDBY",
    "deploymentId": "run-1",
    "timestamp": 1_000,
}


def refused(**fields: Any) -> str:
    with pytest.raises(MalformedRecord) as refusal:
        parse_own_request(json.dumps(FAIL_OVER | fields))
    return refusal.value.seen


@pytest.mark.parametrize("version", [True, False, 0, 2, 1.5, "1", None])
def test_only_the_number_1_is_version_1(version: Any) -> None:
    """`true` equals it in Python, and is no version of anything on the wire."""
    assert refused(version=version).startswith("field version: ")


@pytest.mark.parametrize("kind", [k.value for k in RequestKind if k.is_about_another])
def test_one_that_is_about_another_must_name_it(kind: str) -> None:
    """The field that is missing, not the whole document."""
    seen = refused(kind=kind)
    assert seen.startswith("field refersTo: ")
    assert f"a {kind} names the request that it is about" in seen
    assert refused(kind=kind, refersTo=None).startswith("field refersTo: ")
    assert parse_own_request(json.dumps(FAIL_OVER | {"kind": kind, "refersTo": UUID}))


def test_what_only_one_kind_has_is_refused_by_its_field() -> None:
    """A hold is of a place, an incarnation of a fail-over."""
    seen = refused(hold=True)
    assert seen.startswith("field hold: ")
    assert "a fail-over can't be held, only a place" in seen
    seen = refused(kind="start-standby", executionId="demo-0-000001")
    assert seen.startswith("field executionId: ")
    assert "a start-standby names no incarnation, only a fail-over" in seen


def test_a_kind_that_nobody_knows_is_refused_by_its_own_name() -> None:
    """Nothing is said of fields whose meaning depends on it."""
    assert refused(kind="nap", hold=True).startswith("field kind: ")


def test_who_writes_one_is_told_the_same() -> None:
    """A client finds its mistake before the request is written."""
    with pytest.raises(ValueError, match="only a place"):
        OwnRequest(
            kind=RequestKind.FAIL_OVER,
            processor_id="0",
            destination_host="STANDBY",
            deployment_id="run-1",
            timestamp=1,
            hold=True,
        )
