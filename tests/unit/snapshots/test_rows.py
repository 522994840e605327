"""What the rows of one job say of several parts, and what they go by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from samza_dagster.errors import Refused
from samza_dagster.lag import Bounds, ReplicaReport, Speeds, newest_readiness, speeds
from samza_dagster.metadata.job_topics import OffsetRange, Ranges
from samza_dagster.snapshots.fleet import Moment, refuse_unconfirmed
from samza_dagster.snapshots.found import Found, Job, Said
from samza_dagster.snapshots.rows import (
    Replica,
    _reports,
    parts,
    replicas,
    restore_rows,
    speeds_for,
    violation_rows,
    with_readiness,
)
from samza_dagster.snapshots.tables import day_of

pytestmark = pytest.mark.unit

ACTIVE, STANDBY, SECOND = "Partition 0", "Standby-Partition 0-0", "Standby-Partition 0-1"
STORES = ("a", "b")
RANGES: Ranges = {(f"log-{store}", 0): OffsetRange(0, 100) for store in STORES}


def job(hosts: dict[str, str], *said: Said) -> Job:
    """An active of two stores on container 0, with two standbys; what the first of these has said."""
    config = {f"stores.{s}.factory": "F" for s in STORES}
    config |= {f"stores.{s}.changelog": f"kafka.log-{s}" for s in STORES}
    tasks = {ACTIVE: "0", STANDBY: "0-0", SECOND: "0-1"}
    found = Found(
        config,
        {pid: (host, 1) for pid, host in hosts.items()},
        tasks,
        {task: "Active" if task == ACTIVE else "Standby" for task in tasks},
        {ACTIVE: 0},
    )
    found.reports[STANDBY] = list(said)
    return Job("j", "1", found)


def report(came_ms: int, **applied: int) -> Said:
    offsets = {f"kafka-log-{store}-0-offset": offset for store, offset in applied.items()}
    return Said("metrics", (came_ms, came_ms), 7, offsets, "h1", "h1", came_ms)


HOSTS = {"0": "h0", "0-0": "h1", "0-1": "h2"}


def measured(one: Job) -> list[Replica]:
    every = replicas(one, RANGES)
    for replica in every:
        replica.measure(60_000, {}, all_observed=True)
    return every


def standby_of(one: Job) -> dict[str, Any]:
    rows, _ = with_readiness(one, measured(one), {}, Bounds(), {})
    return next(row for row in rows if row["processor_id"] == "0-0")


def test_a_standbys_lag_is_known_when_that_of_each_store_is() -> None:
    """The sum of what is known would be too small, and look like a standby that is nearer."""
    assert standby_of(job(HOSTS, report(5_000, a=89, b=79)))["lag_records"] == 30
    assert standby_of(job(HOSTS, report(5_000, a=89)))["lag_records"] is None


def test_a_standby_was_heard_when_the_last_of_its_stores_to_tell_was() -> None:
    """Of its stores' newest reports the oldest: no part of it is known later than that."""
    told = job(HOSTS, report(4_000, a=89), report(9_000, b=79))
    assert standby_of(told)["came_at"] == 4_000


@pytest.mark.parametrize(
    ("silent_ms", "all_observed", "told"),
    [
        (None, True, ("no-observation", None)),
        (75_400, True, ("not-heard", "not heard for 75 s")),
        (75_400, False, ("no-leader-of-observations", None)),
    ],
)
def test_why_nothing_is_known_of_an_active_is_told(
    silent_ms: int | None, told: tuple[str, str | None], *, all_observed: bool
) -> None:
    """What earlier snapshots heard of it says since when."""
    one = replicas(job(HOSTS), RANGES)[0]
    one.silent_ms = silent_ms
    row = one.measure(60_000, {}, all_observed=all_observed)
    assert (row["unknown_because"], row["why"]) == told


def test_between_two_reports_a_changelog_is_taken_to_have_grown_evenly() -> None:
    """And never less than what was applied; what earlier snapshots had comes before, once."""
    told = [report(at_ms, a=at) for at_ms, at in ((10_000, 10), (20_000, 250), (30_000, 210))]
    one = next(r for r in replicas(job(HOSTS, *told), LONG) if r.task.name == STANDBY)
    one.earlier = tuple(ReplicaReport(ms, "h1", 0, 0, 20) for ms in (0, 10_000, 25_000))
    since = {("log-a", 0, 10_000): 120, ("log-a", 0, 30_000): 320}
    one.measure(60_000, since, all_observed=True)
    assert [(r.came_ms, r.applied_offset, r.end) for r in _reports(one, since)] == [
        (0, 0, 20),
        (10_000, 10, 120),
        (20_000, 250, 251),
        (30_000, 210, 320),
    ]


def test_the_paces_of_a_standby_are_published_by_its_replicas() -> None:
    """By task, store and partition, as whoever waits for a takeover asks for them."""
    told = [report(at_ms, a=at_ms // 500, b=0) for at_ms in (10_000, 20_000, 30_000)]
    one = job(HOSTS, *told)
    _, records = with_readiness(one, measured(one), {}, Bounds(), {})
    published = newest_readiness(records, 30_000).standbys
    assert {standby: [*of.paces] for standby, of in published.items()} == {
        "0-0": [(STANDBY, "a", 0), (STANDBY, "b", 0)],
        "0-1": [],
    }
    assert published["0-0"].paces[STANDBY, "a", 0].apply_per_s == 2


def test_of_a_task_without_a_partition_no_report_tells_anything() -> None:
    """Though it has the offset of another one."""
    one = job(HOSTS, Said("metrics", (1, 1), 7, {"kafka-log-a-1-offset": 9}, "h1", "h1", 1))
    one.found.partitions.clear()
    rows = [replica.row for replica in measured(Job("j", "1", one.found))]
    assert {(row["partition"], row["applied_offset"], row["unknown_because"]) for row in rows} == {
        (None, None, "no-changelog")
    }


def test_a_report_without_an_offset_tells_nothing_of_where_the_replica_is() -> None:
    """As one of a container whose store isn't open yet."""
    said = Said("metrics", (1, 1), 7, {"kafka-log-a-0-offset": None}, "h1", "h1", 1)
    row = next(r.row for r in measured(job(HOSTS, said)) if r.task.name == STANDBY)
    names = ("applied_offset", "applied_source", "observed_at", "came_at", "process")
    assert [row[name] for name in names] == [None] * 5


@pytest.mark.parametrize(
    ("applied", "asked"),
    [
        # when the newest came, whether it went on for longer than a reporter may be silent; a pace from the oldest
        ((10, 20), {5_000, 9_000, 69_000}),
        ((10, 99), {5_000}),
        ((10,), {5_000, 65_000}),
        ((99,), set[int]()),
        ((None,), set[int]()),
        ((), set[int]()),
    ],
)
def test_brokers_are_asked_where_a_changelog_ended_when_a_report_came(
    applied: tuple[int | None, ...], asked: set[int]
) -> None:
    """Only of the standby that has reported, and of its first and last report."""
    told = [
        Said("metrics", (ms, 0), 7, {"kafka-log-a-0-offset": at}, "h1", "h1", ms)
        for ms, at in zip((5_000, 9_000), applied, strict=False)
    ]
    times = [at for one in replicas(job(HOSTS, *told), RANGES) for at in one.times_asked(60_000)]
    assert set(times) == {("log-a", 0, ms) for ms in asked}


LONG: Ranges = {(f"log-{store}", 0): OffsetRange(0, 400) for store in STORES}


@pytest.mark.parametrize(
    ("report_s", "silent_ms", "newest_ms", "status"),
    [
        # three intervals of its job's reporter, by the newest record of its topic or by earlier snapshots
        (None, None, 185_000, "unproven"),
        (None, None, 185_001, "silent"),
        (10, None, 35_000, "unproven"),
        (10, None, 35_001, "silent"),
        (None, 180_001, 5_000, "silent"),
    ],
)
def test_a_standby_is_silent_after_three_intervals_of_its_own_job(
    report_s: int | None, silent_ms: int | None, newest_ms: int, status: str
) -> None:
    """Samza's reporter's is a minute."""
    one = job(HOSTS, report(5_000, a=99, b=99))
    one.config.update(
        {"metrics.reporters": "r", "metrics.reporter.r.stream": "kafka.metrics"}
        | ({"metrics.reporter.r.interval": f"{report_s}"} if report_s else {})
    )
    one = Job("j", "1", one.found)
    every = measured(one)
    for replica in every:
        replica.silent_ms = silent_ms
    rows, records = with_readiness(one, every, {}, Bounds(), {"metrics": newest_ms})
    assert next(row["status"] for row in rows if row["processor_id"] == "0-0") == status
    known = newest_readiness(records, 5_000).standbys
    assert {p: (of.as_of_ms, of.status.value) for p, of in known.items()} == {
        "0-0": (5_000, status),
        "0-1": (5_000, "unknown" if silent_ms is None else "silent"),
    }


def test_jobs_are_dealt_in_order_and_never_too_many_to_a_part() -> None:
    """A part is held in memory."""
    pieces = {(f"{n:03}", "1"): [b""] for n in reversed(range(250))}
    assert [len(part) for part in parts(pieces, 1_000)] == [100, 100, 50]
    dealt = parts(pieces, 60)
    assert [len(part) for part in dealt] == [60, 60, 60, 60, 10]
    assert [job for part in dealt for job in part] == sorted(pieces)


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({}, []),
        ({"modes": {ACTIVE: "Active"}}, []),
        # a second active of which there is no standby
        ({"containers": {ACTIVE: "0", STANDBY: "0-0", "Partition 1": "1"}}, ["no-standby 1"]),
        ({"containers": {ACTIVE: "0"}}, []),
        ({"containers": {ACTIVE: "0", STANDBY: "0-0", "Partition 1": "1"}, "config": {}}, []),
        ({"hosts": {"0": ("h0", 1), "0-1": ("h2", 1)}}, ["no-host 0-0"]),
        ({"partitions": {ACTIVE: 1}}, ["no-changelog None"] * 2),
        ({"unreadable": 2, "example": "offset 7"}, ["unreadable None"]),
    ],
)
def test_what_isnt_as_it_must_be_is_told(change: dict[str, Any], rules: list[str]) -> None:
    """A job without standbys lacks none, nor does one without changelogs."""
    found = job(HOSTS).found
    hosts = {**found.hosts, "1": ("h9", 1)}
    for name, value in {"hosts": hosts, **change}.items():
        setattr(found, name, value)
    ranges = RANGES | {(f"log-{s}", 0): OffsetRange(0, 1) for s in STORES}
    if "containers" in change:
        found.partitions["Partition 1"] = 0
    one = Job("j", "1", found)
    told = violation_rows(one, replicas(one, ranges))
    assert [f"{row['rule']} {row.get('processor_id')}" for row in told] == rules


@pytest.mark.parametrize(
    ("hosts", "pairs"),
    [
        (HOSTS, set()),
        ({**HOSTS, "0-0": "h0"}, {("0", "0-0")}),
        ({**HOSTS, "0-1": "h1"}, {("0-0", "0-1")}),
        (dict.fromkeys(HOSTS, "h0"), {("0", "0-0"), ("0", "0-1")}),
    ],
)
def test_no_two_copies_of_a_task_are_on_one_host(
    hosts: dict[str, str], pairs: set[tuple[str, str]]
) -> None:
    """Neither an active and its standby nor two standbys."""
    one = job(hosts)
    rows = [r for r in violation_rows(one, replicas(one, RANGES)) if r["rule"] == "same-host"]
    assert {(row["processor_id"], row["other_id"]) for row in rows} == pairs


@pytest.mark.parametrize(("standby", "has"), [("h1", True), ("h0", False)])
def test_a_standby_on_the_host_that_dies_is_none(standby: str, *, has: bool) -> None:
    """It dies with its active."""
    one = job({"0": "h0", "0-0": standby, "0-1": standby})
    (row,) = restore_rows(one, measured(one), Speeds(None, 10.0))["host_loss"]
    assert row["has_standby"] is has


def test_restores_are_as_fast_as_the_day_told_and_else_as_standbys_apply_now() -> None:
    """Of a job whose standby applies 500 a second."""
    now = [{"host": "h1", "lag_records": 90_000, "apply_per_s": 500.0, "write_per_s": 1.0}]
    of_the_day = speeds([("h9", 900.0)], (), 0.0)
    for past, pace in ((of_the_day, 900.0), (speeds((), (), 0.0), 500.0)):
        known = speeds_for(job(HOSTS), now, past, 10.0).pace
        assert known is not None
        assert known.apply_per_s == pace


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        ({}, True),
        ({"lag_records": 500}, False),
        ({"lag_records": None}, False),
        ({"write_per_s": 500.0}, False),
        ({"apply_per_s": None}, False),
        ({"write_per_s": None}, True),
        ({"host": None}, False),
    ],
)
def test_a_standby_restores_while_it_gains_and_is_more_than_a_second_behind(
    row: dict[str, Any], *, counts: bool
) -> None:
    """Else what it applies isn't what it could. A start takes as long as the job's own starts did."""
    now = {"host": "h1", "lag_records": 501, "apply_per_s": 500.0, "write_per_s": 499.0, **row}
    one = job(HOSTS)
    known = speeds_for(one, [now], Speeds(None, 0.0), 10.0)
    assert (known.pace is not None) == counts
    assert known.start_s == 10.0
    one.found.starts += [("h1", 4.0)]
    of_the_day = speeds([("h9", 900.0)] * 3, [("h9", 1.0)], 0.0)
    both = speeds_for(one, [now], of_the_day, 10.0)
    assert (both.pace, both.pace_on, both.start_s) == (of_the_day.pace, of_the_day.pace_on, 4.0)


NOW = datetime(2026, 1, 2, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("minutes", [-20, 20, None])
def test_a_clock_that_no_report_confirms_is_refused(minutes: int | None) -> None:
    """Be it ahead or behind; one that the brokers told is theirs."""
    at = None if minutes is None else NOW + timedelta(minutes=minutes)
    newest_ms = at and round(at.timestamp() * 1000)
    with pytest.raises(Refused, match="no report of the last 15 min"):
        refuse_unconfirmed(Moment(NOW, "no right to write"), newest_ms, 900_000)
    refuse_unconfirmed(Moment(NOW), newest_ms, 900_000)
    for off_ms in (-900_000, 900_000):
        confirmed_ms = round(NOW.timestamp() * 1000) + off_ms
        refuse_unconfirmed(Moment(NOW, "no right to write"), confirmed_ms, 900_000)


@pytest.fixture
def _far_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Honolulu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_far_west")
def test_a_day_is_one_of_utc_wherever_the_machine_is() -> None:
    """Two machines that write one table have the same days."""
    assert day_of(NOW) == "2026-01-02"
