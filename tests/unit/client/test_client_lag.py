"""Lag from what a Samza 1.8.0 job wrote: recorded metrics snapshots and checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.metrics_snapshots import task_samples
from samza_dagster.model.naming import checkpoint_topic
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

TOPIC = "yw-lab-changelog"


@pytest.fixture
def lagging(job: Any) -> Any:
    job.topics.load("metrics", "metrics-samples.jsonl")
    job.topics.load(checkpoint_topic("yw", "1"), "checkpoint-tail.jsonl")
    job.topics.ranges = {(TOPIC, n): OffsetRange(0, 65_900) for n in range(4)}
    for processor_id, host in {"0": "nm1", "1": "nm2", "0-0": "nm2", "1-0": "nm1"}.items():
        locate(job, processor_id, host)
    return job


def locate(job: Any, processor_id: str, host: str) -> None:
    """As a container does when it starts: where the coordinator stream has it."""
    record = stream.set_container_host(Author(host, "samza", job.now_ms), processor_id, host)
    job.store.put(record.namespace, record.key, record.value)


def report(
    job: Any, task: str, *, host: str, at_ms: int, execution_id: str = "", **gauges: Any
) -> TopicRecord:
    """A task's snapshot; gauges by name with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in gauges.items()}
    value = task_report("yw", task, named, host=host, at_ms=at_ms, execution_id=execution_id)
    return TopicRecord(None, value, job.now_ms)


def standby_report(job: Any, offset: int, **header: Any) -> TopicRecord:
    """Of `Standby-Partition 0-0`."""
    gauge = {f"kafka_{TOPIC.replace('-', '_')}_0_offset": str(offset)}
    return report(job, "Standby-Partition 0-0", **header, **gauge)


def lag_of(job: Any, task: str) -> Any:
    client: PlacementClient = job.client()
    return next(lag for lag in client.lag() if lag.task_name == task)


def test_a_standbys_lag_is_what_it_has_still_to_read(lagging: Any) -> None:
    """End offset - 1 - the gauge `kafka-yw-lab-changelog-0-offset` of `TaskName-Standby-…`."""
    lags = {lag.task_name: lag for lag in lagging.client().lag()}
    standby = lags["Standby-Partition 0-0"]
    assert (standby.applied_offset, standby.lag) == (65_838, 65_900 - 1 - 65_838)
    assert (standby.basis, standby.observed_at_ms) == ("metrics", 1_795_264_714_631)
    assert (standby.store, standby.changelog, standby.partition) == ("lab", TOPIC, 0)
    assert len(lags) == 8


def test_the_lag_of_containers_that_report_nothing_new_is_unknown_after_a_while(
    lagging: Any,
) -> None:
    """A metrics partition without a live reporter keeps its last reports; times in them tell nothing."""
    now = [1_000.0]
    client = lagging.client(monotonic=lambda: now[0])
    patience_s = 3 * 5
    first = {lag.task_name: lag for lag in client.lag()}
    now[0] += patience_s
    assert {lag.task_name: lag for lag in client.lag()} == first
    known = first["Standby-Partition 0-0"]
    header = {"host": known.host, "execution_id": known.execution_id}
    fresh = standby_report(lagging, 65_850, at_ms=known.observed_at_ms - 3_600_000, **header)
    lagging.topics.records["metrics"].append(fresh)
    now[0] += 1
    later = {lag.task_name: lag for lag in client.lag()}
    silent = later["Standby-Partition 1-0"]
    assert (silent.lag, silent.basis, silent.applied_offset) == (None, "none", None)
    assert silent.reason == f"{silent.processor_id} has reported nothing new for 16 s"
    assert silent.observed_at_ms == first["Standby-Partition 1-0"].observed_at_ms
    heard = later["Standby-Partition 0-0"]
    assert (heard.lag, heard.reason) == (65_900 - 1 - 65_850, None)


def test_an_active_that_works_has_all_that_it_wrote(lagging: Any) -> None:
    """By its own snapshot, whose `process-calls` and `commit-calls` begin at 0 with it."""
    active = lag_of(lagging, "Partition 0")
    assert (active.applied_offset, active.lag, active.basis) == (65_899, 0, "running")
    assert active.observed_at_ms == 1_795_264_716_795


@pytest.mark.parametrize(("counters", "lag"), [({}, None), ({"commit_calls": 1}, 0)])
def test_an_active_that_restores_isnt_shown_as_caught_up(
    lagging: Any, counters: dict[str, int], lag: int | None
) -> None:
    """It has checked in, and reports, before its stores are restored."""
    at_ms = lagging.now_ms
    lagging.led_by_ours()
    lagging.topics.records["metrics"] = []
    active = lag_of(lagging, "Partition 0")
    assert (active.lag, active.basis, active.observed_at_ms) == (None, "none", None)
    own = report(
        lagging, "Partition 0", host="nm1", at_ms=at_ms, execution_id="0-e0",
        **{"process_calls": 0, "commit_calls": 0, "window_calls": 0, "kafka_in_0_offset": "9"} | counters,
    )  # fmt: skip
    lagging.topics.records["metrics"].append(own)
    active = lag_of(lagging, "Partition 0")
    assert (active.lag, active.observed_at_ms) == (lag, at_ms)


def test_an_active_isnt_taken_for_restored_by_its_former_incarnations_work(lagging: Any) -> None:
    """Its counters of before, on a host whose clock is ahead."""
    lagging.led_by_ours()
    lagging.topics.records["metrics"] = [
        report(lagging, "Partition 0", host="nm1", at_ms=lagging.now_ms + 60_000,
               execution_id="0-e9", process_calls=7),
    ]  # fmt: skip
    assert lag_of(lagging, "Partition 0").lag is None


def test_a_standbys_former_incarnation_doesnt_make_it_look_warm(lagging: Any) -> None:
    """Relocated, or its id used again: by execution id, whatever the hosts' clocks say."""
    lagging.led_by_ours()
    now = lagging.now_ms
    former = standby_report(lagging, 65_898, host="b", at_ms=now + 60_000, execution_id="0-0-e7")
    lagging.topics.records["metrics"] = [former]
    assert lag_of(lagging, "Standby-Partition 0-0").lag is None
    own = standby_report(lagging, 10, host="b", at_ms=now, execution_id="0-0-e0")
    lagging.topics.records["metrics"] = [own, former]
    assert lag_of(lagging, "Standby-Partition 0-0").applied_offset == 10


def test_without_execution_ids_a_report_from_a_former_host_doesnt_count(lagging: Any) -> None:
    """Samza's own AM tells only hosts."""
    now = lagging.now_ms
    locate(lagging, "0-0", "nm7")
    assert lag_of(lagging, "Standby-Partition 0-0").lag is None
    lagging.topics.records["metrics"] += [
        standby_report(lagging, 10, host="nm7", at_ms=now - 60_000, execution_id="c-1")
    ]
    assert lag_of(lagging, "Standby-Partition 0-0").applied_offset == 10


def test_an_active_that_reports_nothing_is_known_by_its_last_commit(lagging: Any) -> None:
    """The changelog offset of its newest `checkpoint-v2`."""
    lagging.topics.records["metrics"] = []
    active = next(lag for lag in lagging.client().lag() if lag.task_name == "Partition 0")
    assert (active.basis, active.applied_offset) == ("checkpoint", 65_834)
    assert active.lag == 65_900 - 1 - 65_834


def test_a_job_that_writes_the_first_version_alone_is_known_by_its_last_commit(
    lagging: Any,
) -> None:
    """`task.checkpoint.write.versions=1`: its changelogs' offsets stand among those of its inputs."""
    lagging.topics.records["metrics"] = []
    topic = checkpoint_topic("yw", "1")
    records = lagging.topics.records[topic]
    lagging.topics.records[topic] = [one for one in records if b"checkpoint-v2" not in one.key]
    active = lag_of(lagging, "Partition 0")
    assert (active.basis, active.applied_offset) == ("checkpoint", 65_834)


def test_a_standby_that_reports_nothing_has_no_known_lag(lagging: Any) -> None:
    """None, never 0: a dead standby must not look ready."""
    records = lagging.topics.records["metrics"]
    later = [r for r in records if b"Standby-Partition 0-0" not in (r.value or b"")]
    records += [replace(r, timestamp_ms=r.timestamp_ms + 60_000) for r in later]
    standby = lag_of(lagging, "Standby-Partition 0-0")
    assert (standby.lag, standby.applied_offset, standby.basis) == (None, None, "none")


def test_the_sample_that_was_written_last_counts_whatever_its_time() -> None:
    """Two hosts may report one task around a move, and a host's clock may be set back."""

    def sample(host: str, at_ms: int, offset: str) -> bytes:
        gauges = {"kafka-c-0-offset": offset, "pending-messages": 3}
        return task_report("j", "Standby-P 0-0", gauges, host=host, at_ms=at_ms)

    newest = task_samples([sample("a", 20, "5"), sample("b", 10, "9")], "j", "1")
    assert newest["Standby-P 0-0"].host == "b"
    assert newest["Standby-P 0-0"].offsets == {"kafka-c-0-offset": 9}


def test_a_job_without_changelogs_has_no_lag(lagging: Any) -> None:
    """A stateless job."""
    lagging.configure("stores.lab.changelog", None)
    assert lagging.client().lag() == ()
