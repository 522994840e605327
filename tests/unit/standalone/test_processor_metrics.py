"""What a standalone processor tells Prometheus, judged by Prometheus's own OpenMetrics parser."""

from __future__ import annotations

from dataclasses import replace

import pytest
from members import A, B, C, at, container, group
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from samza_dagster.agent.metrics import render
from samza_dagster.standalone.group import BarrierState, GroupView
from samza_dagster.standalone.metrics import Seen, metrics_of
from samza_dagster.standalone.processor import ProcessorState
from samza_dagster.standalone.work import ProcessorWork
from tests.rig.standalone_groups import runs

pytestmark = pytest.mark.unit
OF_GROUP = {
    *("leads", "group_size", "registrations", "agreed_version", "unagreed_versions"),
    *("tasks_without_processor", "duplicates"),
}


def told(
    group: GroupView | None, state: ProcessorState | None = None, **more: int
) -> dict[str, float]:
    seen = Seen(state or at(A), group, 7_100, **more)
    page = render({"job": "j-1", "processor": 'a"b\\c'}, metrics_of(seen, 1_000.5)).decode()
    samples = [s for family in text_string_to_metric_families(page) for s in family.samples]
    assert all(s.labels == {"job": "j-1", "processor": 'a"b\\c'} for s in samples)
    return {s.name.removeprefix("samza_dagster_processor_"): s.value for s in samples}


def test_a_group_that_has_agreed_looks_well() -> None:
    """Zeros are told: an alert can only be over for what is told."""
    seen = group(A, B, version=3, state=BarrierState.DONE, joined="a b", a="1 2", b="3")
    seen = replace(seen, agreed=3)
    page = told(seen, at(A, counted=seen.members), registrations=2)
    assert {name: page[name] for name in OF_GROUP} == {
        "leads": 1,
        "group_size": 2,
        "registrations": 2,
        "agreed_version": 3,
        "unagreed_versions": 0,
        "tasks_without_processor": 0,
        "duplicates": 0,
    }
    assert told(seen, at(B))["leads"] == 0


def test_what_is_wrong_with_a_group_is_counted() -> None:
    """Standby tasks of who has left are nobody's loss."""
    seen = group(A, C, version=5, a="1", b="2 3 standby-1")
    page = told(replace(seen, agreed=3, members=(*seen.members, A._replace(sequence="0007"))))
    names = ("group_size", "unagreed_versions", "tasks_without_processor")
    assert [page[name] for name in names] == [3, 2, 2]
    assert page["duplicates"] == 1


def test_of_a_group_that_it_doesnt_read_it_tells_nothing() -> None:
    """What it knew may be long over; how long ZooKeeper is silent it tells by its own clock."""
    page = told(None)
    assert not OF_GROUP & page.keys()
    assert page["zookeeper_silence_seconds"] == 7


def test_what_it_does_itself_is_told() -> None:
    """Active tasks count once their container has checked in; a silence of tasks once one has stayed."""
    own = (container("a", "1", "2"), container("a_1", "3"), container("a-0", "standby-4"))
    work = runs(*own)
    page = told(None, at(A, work=replace(work, at_work=frozenset({"a", "a-0"}), silent_ms=1_500)))
    assert (page["active_tasks"], page["task_silence_seconds"]) == (2, 1.5)
    assert "task_silence_seconds" not in told(None, at(A, work=ProcessorWork()))
    assert told(None, behind_ms=4_000)["behind_seconds"] == 4


def test_the_counter_is_there_from_the_first_scrape() -> None:
    """With when it was 0, by which an alert knows a process that has begun anew."""
    page = told(None)
    assert (page["session_losses_total"], page["session_losses_created"]) == (0, 1_000.5)
    assert told(None, lost_sessions=2)["session_losses_total"] == 2
