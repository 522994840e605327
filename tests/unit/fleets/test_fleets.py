"""Fleets with known answers: what they report agrees with what they say is true."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.rig import fleets
from tests.rig.fleets import Answer, Changelog, Fault, Fleet, Report, Restore, Shape
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


def test_the_same_seed_gives_the_same_fleet_and_another_one_another() -> None:
    again = tuple(reports_of(Fleet(SHAPE), 20_000))
    assert again == tuple(reports_of(Fleet(SHAPE), 20_000))
    assert again != tuple(reports_of(Fleet(Shape(jobs=40, seed=2)), 20_000))


def test_reports_are_of_the_recorded_sizes_and_in_order_of_the_brokers_time() -> None:
    sizes = [len(report.value) for report in reports()]
    assert 2_800 < sum(sizes) / len(sizes) < 3_200
    assert all(before.at_ms <= after.at_ms for before, after in pairwise(reports()))


def test_the_newest_report_of_each_standby_says_what_the_answer_says() -> None:
    gauges = newest_gauges()
    for answer in answers():
        at_ms, gauge = gauges.get((answer.job, answer.task, answer.host), (None, None))
        assert at_ms == answer.reported_ms
        assert (None if gauge is None else int(gauge)) == answer.applied


def test_a_moved_standby_leaves_a_report_of_its_former_host_behind() -> None:
    gauges = newest_gauges()
    moved = [a for a in answers() if a.fault is Fault.MOVED and a.container.endswith("-0")]
    for answer in moved:
        hosts = {host for job, task, host in gauges if (job, task) == (answer.job, answer.task)}
        assert len(hosts) == 2
        assert answer.host in hosts


def test_a_clock_that_is_off_changes_what_a_host_says_and_nothing_of_the_brokers_times() -> None:
    off = {
        json.loads(report.value)["header"]["host"]: json.loads(report.value)["header"]["time"]
        - report.at_ms
        for report in reports()
    }
    assert sorted(set(off.values())) == [-10_800_000, 0, 10_800_000]
    assert sum(1 for skew in off.values() if skew) == SHAPE.skewed_hosts


def test_a_slow_reporter_is_silent_for_a_minute() -> None:
    slow = [a for a in answers() if a.fault is Fault.SLOW_REPORTS]
    assert all(a.reported_ms is None or AT_MS - a.reported_ms <= 60_000 for a in slow)
    assert any(a.reported_ms is not None and AT_MS - a.reported_ms > 20_000 for a in slow)


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


def test_compaction_leaves_fewer_records_than_offsets() -> None:
    compacted = [a for a in answers() if a.fault is Fault.COMPACTED and a.lag and a.left]
    assert all(a.left < a.lag for a in compacted if a.lag is not None and a.lag > 1_000)


def test_the_fleets_know_nothing_of_how_the_product_reads_them() -> None:
    files = Path(fleets.__file__).parent.glob("*.py")
    assert not any("import samza_dagster" in f.read_text() or "from samza_dagster" in f.read_text() for f in files)  # fmt: skip


def test_spoiled_records_are_of_distinct_kinds_and_say_which_can_be_read() -> None:
    found = list(fleets.spoiled("job-0000", "Standby-Partition 0-0", "host-000"))
    assert len({one.kind for one in found}) == len(found) == 7
    assert [one.kind for one in found if one.is_readable] == ["future-dated"]
