"""What is picked out of a record, and what is kept aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.snapshots.records import (
    HUGE_BYTES,
    Fact,
    checkpoint_fact,
    coordinator_fact,
    refuse_future,
    standby_report,
)
from tests.rig.fleets import spoiled

pytestmark = pytest.mark.unit
WIRE = Path(__file__).parents[2] / "data" / "wire"


Reading = Callable[[bytes | None, bytes | None], Fact | TaskSample | None]


def report_record(_key: bytes | None, value: bytes | None) -> TaskSample | None:
    return standby_report(value)


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


@pytest.mark.parametrize("one", spoiled("j", "Standby-Partition 0-0", "h"), ids=lambda it: it.kind)
def test_what_is_no_report_is_kept_aside(one: Any) -> None:
    """One of next year is readable, and its time isn't believed."""

    def read() -> None:
        refuse_future(one.at_ms, 1_795_264_000_000)
        standby_report(one.value)

    with pytest.raises(MalformedRecord):
        read()


@pytest.mark.parametrize(
    ("read", "key", "value", "why"),
    [
        (coordinator_fact, b"x", b"{}", "key: b'x'"),
        (coordinator_fact, b'[1,"set-config","a"]', b"[]", "no object"),
        (coordinator_fact, b'[1,"set-config","a"]', b"{}", "no object"),
        (coordinator_fact, b'[1,"set-config","a"]', b'{"values":{"value":1}}', "no string"),
        (checkpoint_fact, b"{}", b"{}", "no type"),
        (checkpoint_fact, b'{"type":"checkpoint-v2","taskName":"t"}', b"[]", "no checkpoint-v2"),
        (report_record, None, None, "no value"),
        (report_record, None, b'{"header":{"a":1}}', "snapshot: 'source'"),
        (report_record, None, b"x" * (HUGE_BYTES + 1), "4,194,305 bytes"),
    ],
)
def test_what_cant_be_read_says_why(read: Reading, key: Any, value: Any, why: str) -> None:
    """Whoever it is of: also one that names no standby."""
    with pytest.raises(MalformedRecord, match=why):
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
