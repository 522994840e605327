"""Anybody may write to a metrics topic: a record that can't be read costs itself alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.model.metrics_snapshots import task_samples

pytestmark = pytest.mark.unit

GROUP = "org.apache.samza.container.TaskInstanceMetrics"
HEADER: dict[str, Any] = {
    "job-name": "j",
    "job-id": "1",
    "source": "TaskName-P 0",
    "host": "host-1",
    "time": 10,
    "exec-env-container-id": "e1",
}
LONG_MAX = 2**63 - 1

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 2**63, float("inf"), float("nan")])
    | st.floats()
    | st.text()
    | st.sampled_from(["²", "9" * 5000, "\ud800", "1e3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def snapshot(header: Any = HEADER, metrics: Any = None) -> bytes:
    groups = {GROUP: {"kafka-c-0-offset": "5"}} if metrics is None else metrics
    return json.dumps({"header": header, "metrics": groups}).encode()


GOOD = snapshot({**HEADER, "source": "TaskName-P 1"})
UNREADABLE = {
    "a time that no number holds": snapshot({**HEADER, "time": float("inf")}),
    "a time that no clock tells": snapshot({**HEADER, "time": 10**400}),
    "no time": snapshot({**HEADER, "time": None}),
    "deeper than any stack": b'["TaskName-P",' + b"[" * 50_000,
    "objects deeper than any stack": b'{"TaskName-P":' * 50_000,
    "no JSON": b'"TaskName-P\x00\xff',
    "no object": b'"TaskName-P"',
    "no header": b'{"TaskName-P":1}',
    "groups that are none": snapshot(metrics=[1]),
}


@pytest.mark.parametrize("junk", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_report_that_cant_be_read_costs_no_other_one(junk: bytes) -> None:
    """It is told, and whatever comes before and after it counts."""
    told: list[bytes] = []
    others = [GOOD, junk, snapshot()]
    assert task_samples(others, "j", "1", on_unreadable=told.append).keys() == {"P 0", "P 1"}
    assert told == [junk]


def test_what_isnt_ours_is_no_report_that_cant_be_read() -> None:
    """A metrics topic is shared: other jobs, other sources, deletions."""
    told: list[bytes] = []
    others = [
        snapshot({**HEADER, "job-name": "k", "time": float("inf")}),
        snapshot({**HEADER, "source": "samza-container-0"}),
        b"[" * 50_000,  # without the name of a task it isn't even read
        b"\x00\xff",
        None,
        b"",
    ]
    assert task_samples(others, "j", "1", on_unreadable=told.append) == {}
    assert told == []


def test_an_offset_that_no_changelog_has_is_left_out() -> None:
    """What is computed with them may be a fraction: no float holds a number of 400 digits."""
    gauges = {
        "a-offset": 10**400,
        "b-offset": "²",
        "c-offset": "9" * 5000,
        "d-offset": str(LONG_MAX),
        "e-offset": -1,
        "f-offset": None,
    }
    sample = task_samples([snapshot(metrics={GROUP: gauges})], "j", "1")["P 0"]
    assert sample.offsets == {"d-offset": LONG_MAX}
    assert sample.unset == {"f-offset"}


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_beside_a_good_report(junk: list[bytes]) -> None:
    """The good one counts."""
    assert "P 1" in task_samples([*junk, GOOD, *junk], "j", "1")


@given(
    time=anything,
    header=anything | st.fixed_dictionaries({}, optional=dict.fromkeys(HEADER, anything)),
    changed=st.dictionaries(st.sampled_from(sorted(HEADER)), anything, max_size=2),
    metrics=anything
    | st.dictionaries(
        st.just(GROUP),
        anything
        | st.dictionaries(st.sampled_from(["a-offset", "b-offset", "process-calls"]), anything),
    ),
)
def test_any_value_anywhere_in_a_report(
    header: Any, time: Any, changed: dict[str, Any], metrics: Any
) -> None:
    """Read in bounds, or told; never an exception, never the loss of another."""
    headers = [header, {**HEADER, **changed}, {**HEADER, "time": time}]
    records = [*(snapshot(each, metrics) for each in headers), GOOD]
    samples = task_samples(records, "j", "1")
    assert "P 1" in samples
    for sample in samples.values():
        assert 0 <= sample.at_ms <= LONG_MAX
        assert all(0 <= offset <= LONG_MAX for offset in sample.offsets.values())
