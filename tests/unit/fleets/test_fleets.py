"""Fleets with known answers: what they report agrees with what they say is true."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.rig import fleets
from tests.rig.fleets import Answer, Changelog, Fault, Fleet, Report, Restore, Shape, said
from tests.rig.fleets import answers as answers_of
from tests.rig.fleets import reports as reports_of
from tests.rig.fleets.fleet import BEGAN_MS

pytestmark = pytest.mark.unit

AT_MS = 150_000
MANY = {fault: 0.09 for fault in Fault if fault is not Fault.NONE}
SHAPE = Shape(jobs=40, containers=2, standbys=2, hosts=12, shares=MANY)


@cache
def reports() -> tuple[Report, ...]:
    return tuple(reports_of(Fleet(SHAPE), AT_MS))


@cache
def answers() -> tuple[Answer, ...]:
    return tuple(answers_of(Fleet(SHAPE), AT_MS))


def newest_gauges() -> dict[tuple[str, str, str], tuple[int, Any]]:
    """Job, task and host → when the newest report of a standby came, and its gauge."""
    found: dict[tuple[str, str, str], tuple[int, Any]] = {}
    for report in reports():
        snapshot = json.loads(report.value)
        header = snapshot["header"]
        task = header["source"].removeprefix("TaskName-")
        if not task.startswith("Standby-"):
            continue
        (gauge,) = {
            value
            for name, value in snapshot["metrics"][
                "org.apache.samza.container.TaskInstanceMetrics"
            ].items()
            if name.endswith("-offset")
        }
        found[header["job-name"], task, header["host"]] = (report.at_ms - BEGAN_MS, gauge)
    return found


def test_every_fault_is_in_a_fleet_and_most_of_a_default_one_is_well() -> None:
    assert {answer.fault for answer in answers()} == set(Fault) - {Fault.NO_CHANGELOG}
    counted = Counter(group.fault for group in Fleet(Shape()).groups)
    assert counted[Fault.NONE] > 1_500
    assert all(counted[fault] for fault in Fault)


def test_the_newest_report_of_each_standby_says_what_the_answer_says() -> None:
    gauges = newest_gauges()
    for answer in answers():
        at_ms, gauge = gauges.get((answer.job, answer.task, answer.host), (None, None))
        assert at_ms == answer.reported_ms
        assert (None if gauge is None else int(gauge)) == answer.applied


def test_a_clock_that_is_off_changes_what_a_host_says_and_nothing_of_the_brokers_times() -> None:
    off = {
        json.loads(report.value)["header"]["host"]: json.loads(report.value)["header"]["time"]
        - report.at_ms
        for report in reports()
    }
    assert sorted(set(off.values())) == [-10_800_000, 0, 10_800_000]
    assert sum(1 for skew in off.values() if skew) == SHAPE.skewed_hosts


@pytest.mark.parametrize(
    ("fault", "lags"),
    [
        (Fault.LEADERLESS, {"no-leader"}),
        (Fault.EMPTY, {None}),
        (Fault.MADE_ANEW, {"beyond-end"}),
    ],
)
def test_what_cannot_be_known_has_its_reason(fault: Fault, lags: set[str | None]) -> None:
    assert {
        a.unknown_because
        for a in answers()
        if a.fault is fault
        and a.reported_ms is not None
        and (a.applied is not None or None in lags)
    } <= lags | ({None} if fault is Fault.MADE_ANEW else set())


def test_a_standby_that_stands_still_falls_behind_by_what_is_written() -> None:
    changelog = Changelog(end_at_start=1_000, per_s=10)
    restore = Restore(changelog, began_ms=0, first=0, per_s=110, stands_ms=20_000)
    assert restore.caught_up_ms() == 10_000
    assert restore.applied_at(5_000) == 549
    assert restore.applied_at(20_000) == restore.applied_at(60_000) == 1_199
    assert changelog.end_at(60_000) - 1 - 1_199 == 400


def test_a_restore_slower_than_its_changelog_never_catches_up() -> None:
    changelog = Changelog(end_at_start=1_000, per_s=10)
    assert Restore(changelog, began_ms=0, first=0, per_s=10).caught_up_ms() is None


def test_over_hours_of_varying_rates_each_restore_is_done_when_its_answer_says() -> None:
    done = 0
    shape = Shape(jobs=20, standbys=2, spread=0.5, shares={Fault.WIPED: 1.0})
    for group in Fleet(shape).groups:
        for standby in group.standbys:
            process, restore = standby.restores[-1]
            at_ms = restore.caught_up_ms()
            if at_ms is None or at_ms == process.began_ms:
                continue
            changelog, done = standby.changelog, done + 1
            assert restore.applied_at(at_ms) == changelog.end_at(at_ms) - 1
            before = restore.applied_at(at_ms - 1_000)
            assert before is None or before < changelog.end_at(at_ms - 1_000) - 1
            reports = list(said(group, standby, 3 * 3_600_000))
            assert len(reports) == pytest.approx(3 * 360, abs=3)
            assert [one.at_ms for one in reports] == sorted(one.at_ms for one in reports)
    assert done > 40


def test_the_fleets_know_nothing_of_how_the_product_reads_them() -> None:
    files = Path(fleets.__file__).parent.glob("*.py")
    assert not any("import samza_dagster" in f.read_text() or "from samza_dagster" in f.read_text() for f in files)  # fmt: skip
