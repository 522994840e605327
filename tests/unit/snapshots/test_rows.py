"""What the rows of one job say of several parts, and what they go by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from samza_dagster.errors import Refused
from samza_dagster.lag import Bounds, Speeds, speeds
from samza_dagster.metadata.job_topics import OffsetRange, Ranges
from samza_dagster.snapshots.fleet import Moment, refuse_unconfirmed
from samza_dagster.snapshots.found import Found, Job, Said
from samza_dagster.snapshots.rows import (
    Replica,
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


NOW = datetime(2026, 1, 2, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("minutes", [-20, 20])
def test_a_clock_that_no_report_confirms_is_refused(minutes: int) -> None:
    """Be it ahead or behind; one that the brokers told is theirs."""
    newest_ms = round((NOW + timedelta(minutes=minutes)).timestamp() * 1000)
    with pytest.raises(Refused, match="no report of the last 15 min"):
        refuse_unconfirmed(Moment(NOW, "no right to write"), newest_ms, 900_000)
    refuse_unconfirmed(Moment(NOW), newest_ms, 900_000)


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
