"""What is picked out of a record, and what is kept aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.snapshots.records import (
    HUGE_BYTES,
    Fact,
    Report,
    Unreadable,
    checkpoint_fact,
    coordinator_fact,
    record_bytes,
    refuse_future,
    report_of,
)
from tests.rig.fleets import spoiled

pytestmark = pytest.mark.unit
WIRE = Path(__file__).parents[2] / "data" / "wire"


ODD = b'{"header":{"source":"TaskName-Standby-p","job-name":"j","job-id":"1","host":"h","time":1},"metrics":{"org.apache.samza.storage.kv.KeyValueStoreMetrics":["a-bytes-written"]}}'
Reading = Callable[[bytes | None, bytes | None], Fact | Report | None]


def report_record(_key: bytes | None, value: bytes | None) -> Report | None:
    return report_of(value)


def recorded(name: str) -> list[tuple[bytes | None, bytes | None]]:
    lines = (json.loads(line) for line in (WIRE / name).read_text().splitlines())

    def text(it: Any) -> bytes | None:
        return None if it is None else (it if isinstance(it, str) else json.dumps(it)).encode()

    return [(text(line["key"]), text(line["value"])) for line in lines]


@pytest.mark.parametrize(
    ("name", "read", "facts"),
    [
        ("coordinator-stream.jsonl", coordinator_fact, 238),
        ("checkpoint-tail.jsonl", checkpoint_fact, 12),
        ("metrics-samples.jsonl", report_record, 4),
    ],
)
def test_nothing_that_samza_wrote_is_unreadable(name: str, read: Reading, facts: int) -> None:
    """Records of a real cluster; most of them say nothing that is needed."""
    assert sum(read(*record) is not None for record in recorded(name)) == facts


def reports() -> list[tuple[bytes, Report]]:
    found = [(value or b"", report_of(value)) for _, value in recorded("metrics-samples.jsonl")]
    return [(value, report) for value, report in found if report is not None]


def told(value: bytes) -> tuple[object, ...]:
    """All that a report says."""
    report = report_of(value)
    assert report is not None
    return (*report[:-1], record_bytes(report.stores))


def test_a_report_is_a_few_numbers() -> None:
    """Of 3,199 bytes: whose it is, how far it is, and how large a record of its store is."""
    value, report = reports()[0]
    assert len(value) == 3_199
    assert report[:3] == (("yw", "1"), "Standby-Partition 0-0", "nm2")
    assert report.process == "container_1795262128546_0004_01_000005"
    assert report.offsets == {"kafka-yw-lab-changelog-0-offset": 65838}
    assert record_bytes(report.stores) == {"lab": 33.0}


def typed(found: Any) -> Any:
    """As `MetricsSnapshotSerdeV2` writes it: each map with the class that Java had."""
    if isinstance(found, dict):
        return ["java.util.HashMap", {name: typed(one) for name, one in found.items()}]
    return ["java.lang.Long", found] if isinstance(found, int) and found > 2**31 else found


def test_a_report_with_the_types_of_java_is_the_same_report() -> None:
    for value, _ in reports():
        assert told(json.dumps(typed(json.loads(value))).encode()) == told(value)


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
        assert report_of(spoiled_value) == report._replace(
            offsets={"a-b-0-offset": None, **report.offsets}
        )


@pytest.mark.parametrize("one", spoiled("j", "Standby-Partition 0-0", "h"), ids=lambda it: it.kind)
def test_what_is_no_report_is_kept_aside(one: Any) -> None:
    """One of next year is readable, and its time isn't believed."""

    def read() -> None:
        refuse_future(one.at_ms, 1_795_264_000_000)
        report_of(one.value)

    with pytest.raises(Unreadable):
        read()


@pytest.mark.parametrize(
    ("read", "key", "value", "why"),
    [
        (coordinator_fact, b"x", b"{}", "no JSON"),
        (coordinator_fact, b'[1,"set-config"]', b"{}", r"no \[version"),
        (coordinator_fact, b'[2,"set-config","a"]', b"{}", "of version 2"),
        (coordinator_fact, b'[1,"set-config","a"]', b"[]", "no values"),
        (coordinator_fact, b'[1,"set-config","a"]', b'{"values":{"value":1}}', "no text"),
        (checkpoint_fact, b"{}", b"{}", "no type"),
        (checkpoint_fact, b'{"type":"checkpoint-v2","taskName":"t"}', b"[]", "no checkpoint-v2"),
        (report_record, None, ODD, "isn't an object"),
        (report_record, None, None, "no value"),
        (report_record, None, b'{"header":{"a":1}}', "snapshot: 'source'"),
        (report_record, None, b"x" * (HUGE_BYTES + 1), "4,194,305 bytes"),
        (report_record, None, b'{"header":{"source":"A"', "no JSON"),
    ],
)
def test_what_cant_be_read_says_why(read: Reading, key: Any, value: Any, why: str) -> None:
    """Whoever it is of: also one that names no standby."""
    with pytest.raises(Unreadable, match=why):
        read(key, value)


def test_what_a_snapshot_doesnt_go_by_is_passed_over() -> None:
    """Other types of records, other settings, other types of checkpoints."""
    value = b'{"values":{"value":"x"}}'
    assert coordinator_fact(b'[1,"set-started","a"]', value) is None
    assert coordinator_fact(b'[1,"set-config","task.class"]', value) is None
    assert checkpoint_fact(b'{"type":"startpoint","taskName":"t"}', b"x") is None


def test_a_deletion_is_a_fact() -> None:
    """It hides what was said before."""
    found = coordinator_fact(b'[1,"set-container-host-assignment","0"]', None)
    assert found == Fact("host", "0", None)
