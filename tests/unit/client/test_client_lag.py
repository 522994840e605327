"""Lag from what a Samza 1.8.0 job wrote: recorded metrics snapshots and checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.metadata.job_topics import OffsetRange, TopicRecord
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.metrics_snapshots import metrics_topics, task_samples
from samza_dagster.model.naming import checkpoint_topic

pytestmark = pytest.mark.unit

TOPIC = "yw-lab-changelog"


@pytest.fixture
def lagging(job: Any) -> Any:
    job.topics.load("metrics", "metrics-samples.jsonl")
    job.topics.load(checkpoint_topic("yw", "1"), "checkpoint-tail.jsonl")
    job.topics.ranges = {(TOPIC, n): OffsetRange(0, 65_900) for n in range(4)}
    return job


def test_a_standbys_lag_is_what_it_has_still_to_read(lagging: Any) -> None:
    """End offset - 1 - the gauge `kafka-yw-lab-changelog-0-offset` of `TaskName-Standby-…`."""
    lags = {lag.task_name: lag for lag in lagging.client().lag()}
    standby = lags["Standby-Partition 0-0"]
    assert (standby.applied_offset, standby.lag) == (65_838, 65_900 - 1 - 65_838)
    assert (standby.basis, standby.observed_at_ms) == ("metrics", 1_795_264_714_631)
    assert (standby.store, standby.changelog, standby.partition) == ("lab", TOPIC, 0)
    assert len(lags) == 8


def test_an_active_that_runs_has_all_that_it_wrote(lagging: Any) -> None:
    """By our coordinator's word; with Samza's AM by a fresh snapshot of the task."""
    active = next(lag for lag in lagging.client().lag() if lag.task_name == "Partition 0")
    assert (active.applied_offset, active.lag, active.basis) == (65_899, 0, "running")
    lagging.topics.records["metrics"] = []
    lagging.led_by_ours()
    active = next(lag for lag in lagging.client().lag() if lag.task_name == "Partition 0")
    assert (active.basis, active.observed_at_ms) == ("running", None)


def test_an_active_that_reports_nothing_is_known_by_its_last_commit(lagging: Any) -> None:
    """The changelog offset of its newest `checkpoint-v2`."""
    lagging.topics.records["metrics"] = []
    active = next(lag for lag in lagging.client().lag() if lag.task_name == "Partition 0")
    assert (active.basis, active.applied_offset) == ("checkpoint", 65_834)
    assert active.lag == 65_900 - 1 - 65_834


def test_a_standby_that_reports_nothing_has_no_known_lag(lagging: Any) -> None:
    """None, never 0: a dead standby must not look ready."""
    lagging.now_ms += 60_000
    standby = next(lag for lag in lagging.client().lag() if lag.processor_id == "0-0")
    assert (standby.lag, standby.applied_offset, standby.basis) == (None, None, "none")


def test_an_empty_changelog_is_no_lag(lagging: Any) -> None:
    """Nothing to read, whatever was reported."""
    lagging.topics.records["metrics"] = []
    lagging.topics.ranges = {(TOPIC, n): OffsetRange(7, 7) for n in range(4)}
    assert {lag.lag for lag in lagging.client().lag()} == {0}


def test_what_the_changelog_no_longer_holds_is_not_to_be_read(lagging: Any) -> None:
    """A standby behind the first offset reads from there."""
    lagging.topics.ranges = {(TOPIC, n): OffsetRange(65_890, 65_900) for n in range(4)}
    standby = next(lag for lag in lagging.client().lag() if lag.processor_id == "0-0")
    assert standby.lag == 10


def test_samples_of_other_jobs_and_junk_are_skipped(lagging: Any) -> None:
    """A metrics topic is shared, and anybody may write to it."""
    junk = [b"", b"{", b"null", b"[]", b'{"header":3,"metrics":{}}', b'{"header":{},"metrics":[]}']
    records = [*(r.value for r in lagging.topics.records["metrics"]), *junk, None]
    assert task_samples(records, "other", "1") == {}
    assert len(task_samples(records, "yw", "1")) == 8
    lagging.topics.records["metrics"] += [TopicRecord(None, j, lagging.now_ms) for j in junk]
    assert len(lagging.client().lag()) == 8


def test_the_newest_sample_counts_whatever_the_order() -> None:
    """Two hosts may report one task around a move."""

    def sample(host: str, at_ms: int, offset: str) -> bytes:
        header = {
            "job-name": "j",
            "job-id": "1",
            "source": "TaskName-Standby-P 0-0",
            "host": host,
            "time": at_ms,
        }
        group = {"kafka-c-0-offset": offset, "pending-messages": 3}
        metrics = {"org.apache.samza.container.TaskInstanceMetrics": group}
        return json.dumps({"header": header, "metrics": metrics}).encode()

    newest = task_samples([sample("b", 20, "9"), sample("a", 10, "5")], "j", "1")
    assert newest["Standby-P 0-0"].host == "b"
    assert newest["Standby-P 0-0"].offsets == {"kafka-c-0-offset": 9}


def test_stores_and_topics_are_found_as_samza_finds_them() -> None:
    """A changelog without a system is of `job.changelog.system`; a topic may hold dots."""
    config = {
        "stores.a.changelog": "kafka.topic.with.dots",
        "stores.b.changelog": "plain",
        "stores.b.changelog.replication.factor": "1",
        "stores.default.changelog.min.compaction.lag.ms": "1",
        "job.changelog.system": "k2",
        "metrics.reporters": "jmx, snapshot",
        "metrics.reporter.snapshot.stream": "kafka.metrics",
    }
    assert [(s.store, s.system, s.topic) for s in store_changelogs(config)] == [
        ("a", "kafka", "topic.with.dots"),
        ("b", "k2", "plain"),
    ]
    assert metrics_topics(config) == {"metrics": 60}


def test_a_job_without_changelogs_has_no_lag(lagging: Any) -> None:
    """A stateless job."""
    lagging.configure("stores.lab.changelog", None)
    assert lagging.client().lag() == ()
