"""A standby's lag is what it was when its report came: literal series of 1,000 records/s, a report a minute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.client.seen_reports import SeenReports
from samza_dagster.client.views import ReplicaLag
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import TaskMode
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

LOG, TASK, S = "yw-lab-changelog", "Standby-Partition 0-0", 1_000
GAUGE = f"kafka-{LOG}-0-offset"


@dataclass
class Minute:
    """A job with Samza's default interval; its changelog gets a record each ms, from 0 on."""

    job: Any
    now_ms: int = 0
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.job.configure("metrics.reporter.snapshot.interval", None)
        self.job.topics.offset_at[LOG, 0] = lambda ms: ms
        self.another_process()

    def another_process(self) -> None:
        """One that has seen nothing of the job yet."""
        self.client = self.job.client(monotonic=lambda: self.now_ms / S)

    def report(
        self,
        applied: int | None,
        at_ms: int,
        *,
        clock_ms: int = 0,
        execution_id: str = "c-1",
        started_ms: int = 1,
        **gauges: Any,
    ) -> None:
        """As it comes at `at_ms`, from a host whose clock is ahead by `clock_ms`."""
        value = task_report(
            *("yw", TASK, {**gauges, GAUGE: None if applied is None else str(applied)}),
            host="host-3",
            at_ms=at_ms + clock_ms,
            execution_id=execution_id,
            **{"reset-time": started_ms},
        )
        records = self.job.topics.records.setdefault("metrics", [])
        records.append(TopicRecord(None, value, at_ms + clock_ms))

    def lag(self, now_ms: int) -> ReplicaLag:
        """Looked at when the changelog ends at `now_ms`."""
        self.now_ms = now_ms
        self.job.topics.ranges[LOG, 0] = OffsetRange(0, now_ms)
        return next(lag for lag in self.client.lag() if lag.task_name == TASK)


@pytest.fixture
def minute(job: Any) -> Minute:
    return Minute(job)


def test_a_standby_that_applies_nothing_falls_behind_from_report_to_report(minute: Minute) -> None:
    """Its process lives and reports; between two reports its lag stands."""
    lags: list[int | None] = []
    for minutes in (2, 3, 4):
        minute.report(120 * S - 1, at_ms=minutes * 60 * S)
        lags += [minute.lag(minutes * 60 * S + late_s * S).lag for late_s in (1, 59)]
    assert lags == [0, 0, 60 * S, 60 * S, 120 * S, 120 * S]


def test_of_a_report_older_than_three_intervals_all_that_was_written_since_is_lag(
    minute: Minute,
) -> None:
    """For one who looks once: a dead standby's last report stays in the topic, and must not look ready."""
    minute.report(100 * S - 1, at_ms=100 * S)
    assert minute.lag(now_ms=280 * S).lag == 0
    minute.another_process()
    assert minute.lag(now_ms=281 * S).lag == 181 * S


def test_the_same_report_is_unknown_for_one_who_has_seen_it_for_three_intervals(
    minute: Minute,
) -> None:
    """No clock tells that but the looker's own."""
    minute.report(100 * S - 1, at_ms=100 * S)
    assert minute.lag(now_ms=101 * S).lag == 0
    silent = minute.lag(now_ms=282 * S)
    assert (silent.lag, silent.reason) == (None, "0-0 has reported nothing new for 181 s")


@pytest.mark.parametrize("clock_s", [-30, 30, -3_600, 3_600])
def test_a_wrong_clock_errs_by_no_more_than_was_written_between_two_looks(
    minute: Minute, clock_s: int
) -> None:
    """The report came between two looks: so did the end that belongs to it, whatever its host's clock says."""
    minute.report(9_100 * S - 1, at_ms=9_100 * S, clock_ms=clock_s * S)
    minute.lag(now_ms=9_159 * S)
    minute.report(9_160 * S - 1 - 5_000, at_ms=9_160 * S, clock_ms=clock_s * S)
    for now_s in (9_161, 9_162, 9_200):
        lag = minute.lag(now_s * S).lag
        assert lag is not None
        assert 5_000 - 1_000 <= lag <= 5_000 + 1_000


@pytest.mark.parametrize("clock_s", [-3_600, 3_600])
def test_one_who_never_looked_before_takes_a_clock_that_is_wrong_by_an_hour_for_none(
    minute: Minute, clock_s: int
) -> None:
    """All that was written since may be lag then: never too little."""
    at_ms = 4_000 * S
    minute.report(at_ms - 1 - 5_000, at_ms=at_ms, clock_ms=clock_s * S)
    assert minute.lag(at_ms + 30 * S).lag == 35_000


def test_messages_behind_high_watermark_is_never_read_as_a_lag(minute: Minute) -> None:
    """It reads 0 for a standby whose restore is dead, and for one that has never begun."""
    lies: dict[str, Any] = {
        f"kafka-{LOG}-0-messages-behind-high-watermark": 0,
        f"kafka-{LOG}-0-high-watermark": 100 * S,
    }
    minute.report(40 * S - 1, at_ms=100 * S, **lies)
    assert minute.lag(now_ms=101 * S).lag == 60 * S
    minute.report(None, at_ms=101 * S, **lies)
    assert minute.lag(now_ms=102 * S).lag is None


def test_a_late_report_of_a_former_incarnation_on_the_same_host_hides_no_newer_one(
    minute: Minute,
) -> None:
    """Samza's AM tells no ids; which of two began later the one clock of their host tells."""
    minute.report(10, at_ms=100 * S, execution_id="c-2", started_ms=90 * S)
    minute.report(99 * S, at_ms=101 * S, execution_id="c-1", started_ms=5 * S)
    lag = minute.lag(now_ms=101 * S)
    assert (lag.applied_offset, lag.execution_id) == (10, "c-2")
    minute.report(20, at_ms=102 * S, execution_id="c-3", started_ms=95 * S)
    assert minute.lag(now_ms=102 * S).execution_id == "c-3"


def replica(end: int, told: int, now: int, report: int) -> ReplicaLag:
    """With applied offset 0, a report's end by the records' times, and the end of now."""
    return ReplicaLag(
        *("0-0", TASK, TaskMode.STANDBY, "lab", LOG, 0, "host-3"),
        end_offset=told, applied_offset=0, lag=told - 1, observed_at_ms=report,
        basis="metrics", written_since=now - told,
    )  # fmt: skip


@settings(max_examples=100)
@given(
    written=st.lists(st.integers(0, 5_000), min_size=2, max_size=12),
    reports=st.data(),
)
def test_whatever_clocks_say_an_end_lies_between_the_two_looks_that_saw_its_report_come(
    written: list[int], reports: st.DataObject
) -> None:
    """And stays as it is until the next report."""
    seen, end, report = SeenReports(), 1, 0
    least = most = 1
    for look, more in enumerate(written):
        before, end = end, end + more
        if look and reports.draw(st.booleans(), label="a report came"):
            report += reports.draw(st.sampled_from([-7, 1, 60_000]), label="its clock")
            least, most = before, end
        elif not look:
            most = end
        told = reports.draw(st.integers(1, end), label="by the times of records")
        (lag,) = seen.bounded([replica(end, told, end, report)])
        assert lag.end_offset is not None
        assert least <= lag.end_offset <= most
        assert (lag.lag, lag.end_offset + lag.written_since) == (lag.end_offset - 1, end)
