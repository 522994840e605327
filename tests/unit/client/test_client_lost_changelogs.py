"""Changelogs that were deleted, lack partitions, or were made anew: rows that say so, and never a small lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from samza_dagster.client.replica_lag import lost_changelogs
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import WHOLE_TOPIC, OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import TaskMode
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

LOG, OTHER, TASK, WAS_APPLIED = "yw-lab-changelog", "yw-more", "Standby-Partition 0-0", 999
GONE, SHORT = f"topic {LOG} doesn't exist", f"topic {LOG} has no partition 1"
ANEW = "ends at 5, and offset 999 was applied"


def reports(job: Any, applied: int = WAS_APPLIED) -> None:
    """Standby 0-0 has applied as many of both stores, and active 0 works."""
    job.configure("stores.more.changelog", f"kafka.{OTHER}")
    gauges = {f"kafka-{log}-0-offset": str(applied) for log in (LOG, OTHER)}
    told = {TASK: ("host-3", gauges), "Partition 0": ("host-1", {"process-calls": 7})}
    job.topics.records["metrics"] = [
        TopicRecord(None, task_report("yw", task, metrics, host=host, at_ms=7), 1_000_000)
        for task, (host, metrics) in told.items()
    ]
    job.topics.ranges = {(log, n): OffsetRange(0, 1_000) for log in (LOG, OTHER) for n in range(4)}


def delete(job: Any) -> None:
    job.topics.ranges = {at: span for at, span in job.topics.ranges.items() if at[0] != LOG}


def make_anew(job: Any, records: int = 5) -> None:
    job.topics.ranges |= {(LOG, n): OffsetRange(0, records) for n in range(4)}


def cut_partitions(job: Any) -> None:
    for number in (1, 2, 3):
        del job.topics.ranges[LOG, number]


def test_a_deleted_changelog_has_a_row_for_each_replica_that_says_so(job: Any) -> None:
    """Actives and standbys; the other store's are as ever."""
    reports(job)
    before = {(lag.store, lag.task_name) for lag in job.client().lag()}
    delete(job)
    found = job.client().lag()
    assert {(lag.store, lag.task_name) for lag in found} == before
    of_store = [lag for lag in found if lag.store == "lab"]
    assert len(of_store) == 8
    told = {(lag.lag, lag.end_offset, lag.reason, lag.unknown_because) for lag in of_store}
    assert told == {(None, None, GONE, "no-changelog")}
    assert {lag.task_name for lag in found if lag.lag == 0} == {TASK, "Partition 0"}
    assert lost_changelogs(found) == {LOG: f"store lab: {GONE}"}


@pytest.mark.parametrize(
    ("befalls", "replica", "reason"),
    [
        (delete, TASK, GONE),
        (cut_partitions, "Standby-Partition 1-0", SHORT),
        (make_anew, TASK, ANEW),
        (lambda job: make_anew(job, records=0), TASK, "ends at 0, and offset 999 was applied"),
    ],
)
def test_what_is_wrong_is_said_however_long_nobody_reports(
    job: Any, befalls: Callable[[Any], None], replica: str, reason: str
) -> None:
    """It isn't hidden by the silence that follows it; nor is a job's silence by it."""
    now = [1_000.0]
    client = job.client(monotonic=lambda: now[0])
    reports(job)
    known = next(lag for lag in client.lag() if lag.task_name == TASK)
    assert (known.lag, known.unknown_because) == (0, "")
    befalls(job)
    for later_s in (0, 3_600):
        now[0] += later_s
        found = {lag.task_name: lag for lag in client.lag() if lag.store == "lab"}
        assert found[replica].lag is None
        assert found[replica].is_changelog_lost
        assert reason in (found[replica].reason or "")
    assert "have been silent" in (client.view().dead or "")


def test_a_checkpoint_beyond_the_end_is_of_a_former_changelog(job: Any) -> None:
    """An active that doesn't run."""
    job.topics.load("__samza_checkpoint_ver_1_for_yw_1", "checkpoint-tail.jsonl")
    job.topics.ranges = {(LOG, n): OffsetRange(0, 5) for n in range(4)}
    (active,) = (lag for lag in job.client().lag() if lag.task_name == "Partition 0")
    assert (active.basis, active.lag, active.unknown_because) == ("checkpoint", None, "beyond-end")


@pytest.mark.parametrize(
    "seen", ["no leader", "the brokers refuse it: Broker: Topic authorization failed"]
)
def test_what_cant_be_read_isnt_taken_for_lost(job: Any, seen: str) -> None:
    """For want of a leader or of a right: exit code 4, not 1."""
    reports(job)
    delete(job)
    job.topics.ranges[LOG, WHOLE_TOPIC] = Unreachable("read", seen=seen)
    of_store = [lag for lag in job.client().lag() if lag.store == "lab"]
    assert {(lag.lag, lag.reason, lag.unknown_because) for lag in of_store} == {
        (None, seen, "no-leader")
    }
    assert lost_changelogs(of_store) == {}


def test_why_a_lag_isnt_known_has_a_word_and_a_known_one_has_none(job: Any) -> None:
    """For scripts: no sentence has to be read."""
    reports(job)
    for lag in job.client().lag():
        expected = "" if lag.lag is not None else "no-observation"
        assert lag.unknown_because == expected
        assert lag.mode in (TaskMode.ACTIVE, TaskMode.STANDBY)
