"""Whatever an agent says: it is refused by field, or led on with, and never ends a leader."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samza_dagster.cluster.agent_messages import LONGEST_WHY, Sync, parse_sync
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.errors import InvalidInput
from samza_dagster.placement.codec import group_from_json, group_to_json
from tests.rig.term_bench import Bench, everything_runs

pytestmark = pytest.mark.unit

LARGEST = 2**53 - 1
BIG = st.sampled_from([2**31, 2**53 - 1, 2**53, 2**63, 10**400, -1, -(2**31) - 1, 0, 1])
TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["x" * 501, "y" * 100_000, "\ud800", "\x00", "../..", "dead", "failed", "running"]
    ),
)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), BIG, st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
VALUE = st.one_of(BIG, TEXT, ANYTHING)


def full(eid: str = "e1") -> dict[str, Any]:
    """Every field that an agent may send."""
    return {
        "version": 1,
        "host": "h1",
        "boot_id": "boot",
        "instance": "one",
        "began_ms": 5,
        "sequence": 3,
        "wait_ms": 0,
        "highest_epoch": 4,
        "losses": 0,
        "fault_domain": "rack",
        "journal": "b",
        "resources": {"memory_mb": 9_000, "cores": 9, "free_memory_mb": 9_000, "free_cores": 9},
        "reservations": [{"request_id": "r1", "memory_mb": 1, "cores": 1, "execution_id": eid}],
        "containers": [
            {
                "execution_id": eid,
                "processor_id": "0",
                "state": "running",
                "pid": 7,
                "released": True,
                "checked_in": True,
                "exit_status": None,
                "why": "",
                "stop_failed": "",
            }
        ],
        "parked": [{"execution_id": eid, "request_id": "r1", "ready": True}],
        "acknowledged": [{"id": "c1", "ok": True, "why": ""}],
    }


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(found for key, entry in inner for found in paths(entry, (*path, key)))]


PATHS = [path for path in paths(full()) if path]


@st.composite
def messages(draw: st.DrawFn, eid: str = "e1") -> bytes:
    """A true message in which up to three fields say something else, or are left out."""
    message = full(eid)
    for path in draw(st.lists(st.sampled_from(PATHS), max_size=3)):
        inner: Any = message
        try:
            for key in path[:-1]:
                inner = inner[key]
            if draw(st.booleans()) or not isinstance(inner, dict):
                inner[path[-1]] = draw(VALUE)
            else:
                cast("dict[str, Any]", inner).pop(path[-1], None)
        except (KeyError, IndexError, TypeError):
            continue
    return json.dumps(message).encode()


GARBAGE = st.one_of(st.binary(max_size=200), ANYTHING.map(lambda value: json.dumps(value).encode()))


def read(body: bytes) -> Sync | None:
    """None: refused, with a field of the message or all of it named.

    What is read has numbers that every reader of JSON takes, and reasons of a bounded length.
    """
    try:
        sync = parse_sync(body)
    except InvalidInput as error:
        refusal, sync = error, None
    if sync is None:
        assert re.match(r"field |its protocol version ", refusal.seen), refusal.seen
        return None
    assert 0 <= sync.highest_epoch <= LARGEST
    assert 0 <= sync.sequence <= LARGEST
    for container in sync.containers:
        assert max(len(container.why), len(container.stop_failed)) <= LONGEST_WHY
    json.dumps(sync.model_dump()).encode("utf-8")
    for text in (sync.host, sync.journal, *(c.why for c in sync.containers)):
        text.encode("utf-8")
    return sync


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(str(key) for key in path))
def test_each_field_is_refused_by_its_name(path: tuple[Any, ...]) -> None:
    """An object where a text, a number or a truth is due; a text where an object or a list is."""
    message: Any = full()
    inner = message
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = "no" if isinstance(inner[path[-1]], dict | list) else {"no": 1}
    with pytest.raises(InvalidInput) as refused:
        parse_sync(json.dumps(message).encode())
    assert f"field {'.'.join(str(key) for key in path)}" in refused.value.seen


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_word_of_a_host_ends_a_leader(data: st.DataObject) -> None:
    """Whatever is read is decided and committed; the state that it makes is read back."""
    bench = Bench()
    bench.run()
    everything_runs(bench)
    starts = bench.cluster.named("start_container")
    eid = starts[0][3].execution_id if starts else "e1"
    record = HostRecord("h1")
    for _ in range(data.draw(st.integers(1, 3))):
        sync = read(data.draw(st.one_of(messages(eid), GARBAGE)))
        if sync is None:
            continue
        assert bench.cluster.callbacks is not None
        for notice in record.take(sync):
            notice(bench.cluster.callbacks)
        bench.handle_all()
    for group in bench.steps.state.groups.values():
        assert group_from_json(group_to_json(group)) == group
    for records, _, _ in bench.log.commits:
        for _, value in records:
            assert len(json.dumps(value, allow_nan=False).encode("utf-8")) < 100_000


def test_a_host_has_no_longer_name_than_a_request_may_ask_for() -> None:
    """Name services know none either."""
    message = full()
    assert read(json.dumps({**message, "host": "h" * 255}).encode()) is not None
    with pytest.raises(InvalidInput, match=r"field host: .* at most 255 characters"):
        parse_sync(json.dumps({**message, "host": "h" * 256}).encode())
