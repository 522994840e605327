"""Anybody may write to a metrics topic: a record that can't be read costs itself alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.metrics_snapshots import (
    STANDBY_TASK,
    TaskSample,
    decode_report,
    host_time,
    metrics_topics,
    task_samples,
)

pytestmark = pytest.mark.unit

WIRE = Path(__file__).parents[2] / "data" / "wire"
STORES = "org.apache.samza.storage.kv.KeyValueStoreMetrics"
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


SYSTEMS, TOPICS = st.text("kafk2-", min_size=1), st.text("ab1._-", min_size=1)
REPORTERS = st.dictionaries(
    st.text("abc-", min_size=1),
    st.tuples(SYSTEMS, TOPICS, st.none() | st.integers(1, 3_600)),
    max_size=3,
)


@given(REPORTERS)
def test_each_reporter_with_a_stream_has_its_topic_and_its_interval(
    reporters: dict[str, tuple[str, str, int | None]],
) -> None:
    """A stream is a system, a dot and a topic, whose name may have dots; the interval is 60 s by default."""
    of = "metrics.reporter."
    config = {"metrics.reporters": " , ".join(["jmx", *reporters]), f"{of}former.stream": "kafka.m"}
    for name, (system, topic, interval_s) in reporters.items():
        config[f"{of}{name}.stream"] = f"{system}.{topic}"
        if interval_s is not None:
            config[f"{of}{name}.interval"] = str(interval_s)
    wanted = {topic: 60 if s is None else s for _, topic, s in reporters.values()}
    assert metrics_topics(config) == wanted


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
    "a number of 400 digits": snapshot(metrics={GROUP: {"a-offset": 10**400}}),
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
        snapshot({**HEADER, "job-name": "k", "time": None}),
        snapshot({**HEADER, "source": "samza-container-0"}),
        b"[" * 50_000,  # without the name of a task it isn't even read
        b"\x00\xff",
        None,
        b"",
    ]
    assert task_samples(others, "j", "1", on_unreadable=told.append) == {}
    assert told == []


def test_an_offset_that_no_changelog_has_is_none() -> None:
    """Kafka's offsets are Java's longs from 0, and digits."""
    gauges = {
        "a-offset": 2**80,
        "b-offset": "²",
        "c-offset": "9" * 5000,
        "d-offset": str(LONG_MAX),
        "e-offset": -1,
        "f-offset": None,
    }
    sample = task_samples([snapshot(metrics={GROUP: gauges})], "j", "1")["P 0"]
    assert sample.offsets == {**dict.fromkeys(gauges), "d-offset": LONG_MAX}


def reports() -> list[tuple[bytes, TaskSample]]:
    """Those of standbys among a real cluster's."""
    lines = (WIRE / "metrics-samples.jsonl").read_text().splitlines()
    values = [json.loads(line)["value"].encode() for line in lines]
    found = [(value, decode_report(value, source=STANDBY_TASK)) for value in values]
    return [(value, report) for value, report in found if report is not None]


def told(value: bytes) -> tuple[object, ...]:
    """All that a report says."""
    report = decode_report(value)
    assert report is not None
    return (*report._replace(stores={}), report.record_bytes)


def test_a_report_is_a_few_numbers() -> None:
    """Of 3,199 bytes: whose it is, how far it is, and how large a record of its store is."""
    value, report = reports()[0]
    assert len(value) == 3_199
    assert (report.job, *report[:2]) == (("yw", "1"), "Standby-Partition 0-0", "nm2")
    assert report.execution_id == "container_1795262128546_0004_01_000005"
    assert report.offsets == {"kafka-yw-lab-changelog-0-offset": 65838}
    assert report.record_bytes == {"lab": 33.0}


def typed(found: Any) -> Any:
    """As `MetricsSnapshotSerdeV2` writes it: each map with the class that Java had."""
    if isinstance(found, dict):
        return ["java.util.HashMap", {name: typed(one) for name, one in found.items()}]
    return ["java.lang.Long", found] if isinstance(found, int) and found > 2**31 else found


def test_a_report_with_the_types_of_java_is_the_same_report() -> None:
    for value, report in reports():
        of_java = json.dumps(typed(json.loads(value))).encode()
        assert told(of_java) == told(value)
        assert task_samples([of_java], "yw", "1") == task_samples([value], "yw", "1") != {}
        assert host_time(of_java, ("yw", "1")) == host_time(value, ("yw", "1")) == report[1:3]


def test_the_order_within_a_report_says_nothing() -> None:
    """Its metrics first, its header last."""
    for value, _ in reports():
        backwards = dict(reversed(json.loads(value).items()))
        assert told(json.dumps(backwards).encode()) == told(value)


def test_a_brace_within_a_gauge_hides_no_other() -> None:
    """An offset is what its system makes of it; here it ends the group for who looks at bytes alone."""
    for value, report in reports():
        mark = b'TaskInstanceMetrics":{'
        spoiled_value = value.replace(mark, mark + b'"a-b-0-offset":"{}",', 1)
        assert decode_report(spoiled_value) == report._replace(
            offsets={"a-b-0-offset": None, **report.offsets}
        )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"header":{"source":"A"', "snapshot: unexpected end"),
        (b'{"header":{"a":1}}', "snapshot: 'source'"),
        (b'["TaskName-P 0"]', "snapshot: "),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "snapshot: "),
        (snapshot(metrics={GROUP: ["a-offset"]}), "isn't an object"),
        (snapshot(metrics={STORES: ["a-bytes-written"]}), "isn't an object"),
        (snapshot({**HEADER, "time": None}), "time or job-name"),
        (snapshot({**HEADER, "job-name": ["j"]}), "time or job-name"),
    ],
)
def test_what_is_no_report_says_why(value: bytes, why: str) -> None:
    """Also one that names no task, and one that is deeper than any stack."""
    with pytest.raises(MalformedRecord, match=why):
        decode_report(value)


def test_of_another_source_or_job_the_header_alone_is_read() -> None:
    """That spares most of the parsing, of a topic that a fleet shares."""
    header = json.dumps(HEADER, separators=(",", ":")).encode()
    cut_off = b'{"header":' + header + b',"metrics":{"'
    assert decode_report(cut_off, source=STANDBY_TASK) is None
    assert decode_report(cut_off, jobs=[("k", "1")]) is None
    with pytest.raises(MalformedRecord, match="unexpected end"):
        decode_report(cut_off)


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
        assert all(it is None or 0 <= it <= LONG_MAX for it in sample.offsets.values())
