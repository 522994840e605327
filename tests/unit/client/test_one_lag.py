"""One table of lags that the rule, the client and a snapshot are each held against."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Came, FirstSince, behind
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.snapshots.found import Found, Job, Said
from samza_dagster.snapshots.rows import replicas
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

Row = dict[str, Any]
LOG, TASK, HERE, ELSEWHERE = "yw-lab-changelog", "Standby-Partition 0-0", "host-3", "host-9"
GAUGE = f"kafka-{LOG}-0-offset"
CAME_MS, PATIENCE_MS = 1_000_000, 15_000
NO_LEADER = Unreachable(f"read {LOG}-0", seen="no leader", fix="start its broker")


class Case(NamedTuple):
    """A standby's partition, the offset that was reported, and what comes of it.

    `since` is the changelog's first record since the report came, None: there is none; `goes_on`: it
    was written to three intervals after the report and later.
    """

    what: str
    span: OffsetRange | Unreachable | None
    applied: int | None
    lag: int | None
    end: int | None
    since: int | None = None
    goes_on: bool = False
    from_host: str = HERE
    unknown_because: str | None = None

    def first_since(self, asked: Collection[Came]) -> FirstSince:
        times = {CAME_MS: self.since, CAME_MS + PATIENCE_MS: self.since if self.goes_on else None}
        return {at: first for at in asked if (first := times[at[2]]) is not None}

    @property
    def written_since(self) -> int:
        return self.span.end - (self.end or 0) if isinstance(self.span, OffsetRange) else 0


CASES = (
    Case("caught up a minute ago", OffsetRange(0, 160_000), 99_999, 0, 100_000, since=100_000),
    Case("5 s behind a minute ago", OffsetRange(0, 160_000), 94_999, 5_000, 100_000, since=100_000),
    Case("nothing written since", OffsetRange(0, 100), 94, 5, 100),
    Case("at the end", OffsetRange(0, 100), 99, 0, 100),
    Case("never applied more than the first", OffsetRange(0, 100), 0, 99, 100),
    Case("its last report is old", OffsetRange(0, 281), 99, 181, 281, since=100, goes_on=True),
    Case("its host's clock is behind", OffsetRange(0, 200), 120, 0, 121, since=100),
    Case("a beginning that moved on", OffsetRange(150, 200), 100, 0, 150, since=120),
    Case("before what the changelog holds", OffsetRange(90, 100), 5, 10, 100),
    Case("an empty changelog", OffsetRange(7, 7), None, 0, 7),
    Case("made anew with five records", OffsetRange(0, 5), 999, None, 5, unknown_because="beyond-end"),
    Case("made anew and empty", OffsetRange(0, 0), 999, None, 0, unknown_because="beyond-end"),
    Case("emptied since", OffsetRange(1_000, 1_000), 500, 0, 1_000),
    Case("cut since", OffsetRange(0, 200), 500, None, 200, unknown_because="beyond-end"),
    Case("no report", OffsetRange(0, 200), None, None, 200, unknown_because="no-observation"),
    Case("a former host's report", OffsetRange(0, 200), 199, None, 200, from_host=ELSEWHERE,
         unknown_because="former-host"),
    Case("no leader", NO_LEADER, 5, None, None, unknown_because="no-leader"),
    Case("no topic", None, 5, None, None, unknown_because="no-changelog"),
)  # fmt: skip
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)


@cases
def test_by_the_rule(case: Case) -> None:
    """What isn't known of the changelog, and whose report counts, is decided before it."""
    if not isinstance(case.span, OffsetRange) or case.from_host != HERE:
        return
    at = (LOG, 0, CAME_MS)
    first = case.first_since({at, (LOG, 0, CAME_MS + PATIENCE_MS)})
    found = behind(
        *(case.span.start, case.span.end, case.applied, at),
        patience_ms=PATIENCE_MS,
        first_since=first,
    )
    assert found == (case.end, case.lag, case.written_since)


@cases
def test_by_the_client(job: Any, case: Case) -> None:
    """From a metrics topic in memory. Its words are those of a snapshot, but for a former host's report."""
    record = stream.set_container_host(Author(HERE, "samza", job.now_ms), "0-0", HERE)
    job.store.put(record.namespace, record.key, record.value)
    gauges = {GAUGE: None if case.applied is None else str(case.applied)}
    value = task_report("yw", TASK, gauges, host=case.from_host, at_ms=7)
    job.topics.records["metrics"] = [TopicRecord(None, value, CAME_MS)]
    job.topics.offsets_since = case.first_since
    if case.span is not None:
        job.topics.ranges[LOG, 0] = case.span
    (found,) = (lag for lag in job.client().lag() if lag.task_name == TASK)
    assert (found.end_offset, found.lag, found.written_since) == (
        *(case.end, case.lag, case.written_since),
    )
    word = (case.unknown_because or "").replace("former-host", "no-observation")
    assert found.unknown_because == word
    assert bool(found.reason) == (word not in ("", "no-observation"))


CONFIG = {"stores.lab.factory": "F", "stores.lab.changelog": f"kafka.{LOG}"}


def placed(task: str, mode: str, host: str | None) -> Found:
    """What a coordinator stream says of one task."""
    hosts = () if host is None else [("0-0", (host, 7))]
    return Found(dict(CONFIG), dict(hosts), {task: "0-0"}, {task: mode}, {task: 0})


def snapshot_row(case: Case, *reports: Said) -> Row:
    """Of what workers have read."""
    found = [placed(TASK, "Standby", HERE), Found(reports={TASK: list(reports)})]
    job = Job("yw", "1", Found.of(found))
    (one,) = replicas(job, {} if case.span is None else {(LOG, 0): case.span})
    first_since = case.first_since(set(one.times_asked(PATIENCE_MS)))
    return one.measure(PATIENCE_MS, first_since, all_observed=True)


def reported(applied: int, host: str, came_ms: int = CAME_MS) -> Said:
    return Said("metrics", (came_ms, came_ms), 7, {GAUGE: applied}, host, host, came_ms)


@cases
def test_by_a_snapshot(case: Case) -> None:
    """From facts as Spark gives them, with why a lag isn't known."""
    reports = [] if case.applied is None else [reported(case.applied, case.from_host)]
    row = snapshot_row(case, *reports)
    assert (row["end_offset"], row["lag_records"]) == (case.end, case.lag)
    assert row["written_since"] == (None if case.end is None else case.written_since)
    assert row["unknown_because"] == case.unknown_because
    assert (row["active_task"], row["changelog"], row["partition"]) == ("Partition 0", LOG, 0)
    known = case.applied is not None and case.from_host == HERE
    assert row["applied_offset"] == (case.applied if known else None)
    assert row["applied_source"] == ("metrics" if known else None)


def test_a_former_hosts_report_hides_none_of_where_the_standby_runs_now() -> None:
    """By a clock that is ahead it was the newer one, and a snapshot knew no lag."""
    case = Case("", OffsetRange(0, 100), 94, 5, 100)
    former = reported(99, ELSEWHERE, CAME_MS + 60_000)
    assert snapshot_row(case, former, reported(94, HERE))["lag_records"] == 5


@pytest.mark.parametrize(("commits", "lag"), [(1, 9), (0, None)])
def test_a_snapshot_says_that_a_report_may_be_where_nothing_could_be_read(
    commits: int, lag: int | None
) -> None:
    """And knows commits by the end of now: they came at no time."""
    found = placed("Partition 0", "Active", None)
    if commits:
        said = Said("checkpoint-v2", (0, 5), 1, {GAUGE: 90})
        found.checkpoints["Partition 0", "checkpoint-v2"] = said
    (one,) = replicas(Job("yw", "1", found), {(LOG, 0): OffsetRange(0, 100)})
    row = one.measure(PATIENCE_MS, {}, all_observed=False)
    assert row["lag_records"] == lag
    assert row["applied_source"] == ("checkpoint-v2" if commits else None)
    assert row["unknown_because"] == (None if commits else "no-leader-of-observations")
