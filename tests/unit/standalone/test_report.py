"""What a group is doing, as people and programs read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.standalone.group import BarrierState, GroupView, LocalStores, Running
from tests.unit.standalone.test_processor import A, B, group

pytestmark = pytest.mark.unit


def test_a_group_that_has_agreed_shows_who_has_what() -> None:
    """And there is nothing to look at."""
    seen = group(A, B, version=2, state=BarrierState.DONE, joined="a b", a="1 2", b="3")
    seen = replace(seen, running={A.sequence: Running(2, silent_ms=1_500)})
    report = group_report(seen)
    said = [(row["runs_version"], row["silent_ms"]) for row in report["processors"]]
    assert said == [(2, 1_500), (None, None)]
    assert [row["processor_id"] for row in report["processors"] if row["leads"]] == ["a"]
    assert [row["active_tasks"] for row in report["processors"]] == [["1", "2"], ["3"]]
    assert troubles(report) == []


def test_unused_stores_are_named_and_nothing_is_wrong_with_them() -> None:
    """A program reads them with their processor."""
    stores = LocalStores(unused=("j-1/s/Partition_0",))
    report = group_report(
        group(A._replace(stores=stores), version=1, state=BarrierState.DONE, joined="a", a="1")
    )
    assert [row["unused_stores"] for row in report["processors"]] == [["j-1/s/Partition_0"]]
    assert troubles(report) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (GroupView(), "nobody leads"),
        (group(A, B, version=2, joined="a", a="1", b="2"), "version 2 waits for b"),
        (
            group(A, version=2, state=BarrierState.TIMED_OUT, a="1"),
            "version 2 was given up",
        ),
        (
            group(A, version=2, state=BarrierState.DONE, joined="a", a="1", b="2"),
            "nobody processes 2",
        ),
        (group(A, A, version=0), "two processors have one id"),
        (group(A._replace(holds_standbys=False), B), "a, one of Samza's own processors, leads"),
        (
            group(A._replace(stores=LocalStores(barred=("j-1/s/Partition_0",)))),
            "a may not read and write j-1/s/Partition_0",
        ),
    ],
)
def test_what_is_wrong_is_said(seen: GroupView, said: str) -> None:
    """In words, with the names."""
    assert any(said in line for line in troubles(group_report(seen)))
