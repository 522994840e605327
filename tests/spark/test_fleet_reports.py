"""One pass over the metrics of a whole fleet, held against what is known of the fleet."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.lag import behind
from samza_dagster.metadata import Connection
from samza_dagster.snapshots.fleet_reports import FleetReports, read_fleet_reports
from samza_dagster.snapshots.kafka_source import PartitionRange
from samza_dagster.snapshots.settings import spark_options
from tests.rig.fleets import Answer, Fault, Fleet, Shape, Spoiled, answers, reports, spoiled
from tests.rig.fleets.fleet import BEGAN_MS
from tests.spark.conftest import Topics

pytestmark = pytest.mark.spark

TOPIC, PARTITIONS = "fleet-metrics", 3
AT_MS = 100_000
INTERVAL_MS = 10_000
PATIENCE_MS = 3 * INTERVAL_MS
MANY = {fault: 0.09 for fault in Fault if fault is not Fault.NONE}
FLEET = Fleet(
    Shape(jobs=12, containers=2, standbys=2, hosts=8, shares=MANY, fault_ms=75_000, seed=27)
)
SPOILED = tuple(spoiled("job-0000", "Standby-Partition 0-0", "host-000"))


@pytest.fixture(scope="module")
def found(topics: Topics, spark: Any) -> FleetReports:
    """The spoiled records come first in partition 0, so their offsets are their places."""
    topics.create(TOPIC, PARTITIONS)
    written: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    written[0] = [(None, one.value, one.at_ms) for one in SPOILED]
    for report in reports(FLEET, AT_MS):
        written[report.partition(PARTITIONS)].append((None, report.value, report.at_ms))
    for partition, records in written.items():
        topics.fill(TOPIC, records, partition)
    ranges = [PartitionRange(TOPIC, number, 0, len(all_)) for number, all_ in written.items()]
    options = spark_options(Connection(topics.bootstrap, "any", "1"))
    return read_fleet_reports(spark, options, ranges, splits=5)


@pytest.fixture(scope="module")
def newest(found: FleetReports) -> dict[tuple[str, str, str], dict[str, Any]]:
    """By job, task and host."""
    rows = [row.asDict() for row in found.newest.collect()]
    by_replica = {(r["job_name"], r["task_name"], r["observed_host"]): r for r in rows}
    assert len(by_replica) == len(rows)
    return by_replica


def known(answer: Answer) -> tuple[str, str, str]:
    return answer.job, answer.task, answer.host


def test_each_standby_of_every_job_has_what_its_newest_report_says(newest: Any) -> None:
    every = list(answers(FLEET, AT_MS - 1))
    assert {one.fault for one in every} == set(Fault) - {Fault.NO_CHANGELOG}
    for answer in every:
        row = newest.get(known(answer))
        if answer.reported_ms is None:
            assert row is None
            continue
        assert row["gauge"] == f"kafka-{answer.topic}-{answer.partition}-offset"
        assert (row["applied_offset"], row["came_ms"]) == (
            answer.applied,
            BEGAN_MS + answer.reported_ms,
        )


def test_a_standby_that_began_anew_on_its_host_has_less_than_it_had(newest: Any) -> None:
    """The newest report counts, not the highest offset."""
    for group in FLEET.groups:
        if group.fault is Fault.WIPED:
            for standby in group.standbys:
                (gone, former), *later = standby.restores
                for process, _ in later:
                    row = newest[group.job, standby.task, process.host]
                    last_reported_ms = (gone.ends_ms or 0) - INTERVAL_MS  # or later, with more
                    assert row["applied_offset"] < (former.applied_at(last_reported_ms) or 0)


def test_the_lag_that_follows_is_the_known_one(newest: Any) -> None:
    """By the broker's time of the report; clocks of two of the hosts are three hours off."""
    judged = 0
    for answer in answers(FLEET, AT_MS - 1):
        row = newest.get(known(answer))
        if answer.fault in (Fault.LEADERLESS, Fault.MADE_ANEW) or not row:
            continue
        standby = next(
            s for g in FLEET.groups if g.job == answer.job for s in g.standbys if s.task == answer.task
        )  # fmt: skip
        changelog = standby.changelog
        came = (answer.topic, answer.partition, row["came_ms"])
        seen = behind(
            changelog.beginning_at(AT_MS),
            changelog.end_at(AT_MS),
            row["applied_offset"],
            came,
            patience_ms=PATIENCE_MS,
            first_since={came: answer.end_then or 0},
        )
        assert seen.lag == answer.lag
        judged += 1
    assert judged > 50


def test_what_is_no_snapshot_is_kept_aside_with_its_offset_and_costs_nothing_else(
    found: FleetReports,
) -> None:
    aside = {(row["partition"], row["offset"]) for row in found.unreadable.collect()}
    assert aside == {(0, place) for place, one in enumerate(SPOILED) if not one.is_readable}


def test_a_report_from_a_host_of_the_future_is_of_that_host_alone(newest: Any) -> None:
    of_the_future: Spoiled = SPOILED[-1]
    assert of_the_future.is_readable
    assert not any(host.endswith("-of-the-future") for _, _, host in newest)


def test_nothing_is_told_of_jobs_without_a_changelog(newest: Any) -> None:
    without = [group.job for group in FLEET.groups if group.fault is Fault.NO_CHANGELOG]
    told = {(job, task) for job, task, _ in newest}
    for group in FLEET.groups:
        if group.fault is Fault.NO_CHANGELOG:
            assert not told & {(group.job, standby.task) for standby in group.standbys}
    assert without
