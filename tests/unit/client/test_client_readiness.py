"""What snapshots have published of standbys, as a client reads it beside lags of now."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.lag import Judgement, Pace, StandbyStatus, published
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import lag_topic
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

LOG, TASK, REPORTED_MS = "yw-lab-changelog", "Standby-Partition 0-0", 1_795_264_700_000
GAUGE = f"kafka-{LOG}-0-offset"


def publish(job: Any, as_of_ms: int) -> None:
    """That 0-0 applies 1,000 offsets a second."""
    paces = {(TASK, "lab", 0): Pace(1_000, 10, 50, 6, 10_000)}
    ready = Judgement(StandbyStatus.READY, "")
    record = published("0-0", ready, paces, as_of_ms, 600_000)
    job.topics.records[lag_topic("yw", "1")] = [TopicRecord(*record, 0)]


@pytest.fixture
def behind(job: Any) -> Any:
    """Standby 0-0 has reported that it is 4,000 records behind."""
    value = task_report("yw", TASK, {GAUGE: "5999"}, host="host-3", at_ms=5)
    job.topics.records["metrics"] = [TopicRecord(None, value, REPORTED_MS)]
    job.topics.ranges |= {(LOG, n): OffsetRange(0, 10_000 * (n == 0)) for n in range(4)}
    return job


def test_explain_says_how_long_a_takeover_would_wait_now(behind: Any) -> None:
    """The published pace, and what is left now."""
    publish(behind, REPORTED_MS - 60_000)
    notices = behind.client().explain("0", "host-3").notices
    (told,) = [text for text in notices if text.startswith("0-0: ")]
    assert "ready when last judged; a takeover now would wait 4.0 s for its state" in told
    assert "nine times of ten" in told
    assert [t for t in behind.client().explain("0-0", "ANY_HOST").notices if t == told]


def test_one_that_is_too_old_is_said_and_not_used(behind: Any) -> None:
    """By the newest report of the job; the host's clock, which says 5, is nobody's measure."""
    publish(behind, REPORTED_MS - 600_001)
    client = behind.client()
    (told,) = [text for text in client.explain("0", "host-3").notices if "0-0: " in text]
    assert "10 min older than the newest report" in told
    assert told.endswith("it isn't used")
    assert client.readiness(client.lag()).limit("0-0", 7, 60) == 7


def test_without_a_published_readiness_no_lag_is_read_for_explain(
    behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said, and it costs nothing."""
    client = behind.client()
    monkeypatch.setattr(client, "lag", lambda: pytest.fail("read"))
    assert not [text for text in client.explain("0", "host-3").notices if "0-0: " in text]
    assert client.standbys_now("0").standbys == ("0-0",)


def test_it_is_read_anew_after_half_a_minute(behind: Any) -> None:
    """A wait looks every two seconds."""
    now_s = 0.0
    client = behind.client(monotonic=lambda: now_s)
    lags = client.lag()
    assert client.readiness(lags).limit("0-0", 7, 60) == 7
    publish(behind, REPORTED_MS)
    now_s = 29.0
    assert client.readiness(lags).limit("0-0", 7, 60) == 7
    now_s = 30.0
    assert client.readiness(lags).limit("0-0", 7, 60) == 60_000


def test_a_client_over_metadata_alone_knows_of_none(job: Any) -> None:
    """It has no topics."""
    job.topics = None
    assert job.client().readiness(()).limit("0-0", 7, 60) == 7
