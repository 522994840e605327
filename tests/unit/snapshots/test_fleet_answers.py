"""Lag and readiness of a fleet whose every figure is known, out of what its containers report."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Bounds
from samza_dagster.metadata.job_topics import OffsetRange, Ranges
from samza_dagster.snapshots.found import Found, Job, Said, standby_report
from samza_dagster.snapshots.rows import replicas, with_readiness
from tests.rig.fleets import Answer, Fault, Fleet, Shape, answers, reports
from tests.rig.fleets.fleet import BEGAN_MS, STORE, Group

pytestmark = pytest.mark.unit
END_MS = 100_000
PATIENCE_MS = 180_000
MANY = {fault: 0.06 for fault in Fault if fault is not Fault.NONE}
FLEET = Fleet(Shape(jobs=30, containers=2, standbys=2, hosts=8, shares=MANY, fault_ms=75_000, seed=2))  # fmt: skip
Row = dict[str, Any]


def placed(group: Group) -> Found:
    """What the coordinator stream says of a group at the end."""
    found = Found({f"stores.{STORE}.factory": "F", "metrics.reporters": "s"})
    found.config["metrics.reporter.s.stream"] = "kafka.metrics"
    if group.fault is not Fault.NO_CHANGELOG:
        found.config[f"stores.{STORE}.changelog"] = f"kafka.{group.topic}"
    for standby in group.standbys:
        process = standby.restores[-1][0]
        found.containers[standby.task] = process.container
        found.modes[standby.task] = "Standby"
        found.partitions[standby.task] = standby.partition
        found.hosts[process.container] = process.host, 1
    return found


@cache
def judged() -> dict[tuple[str, str], tuple[Answer, Row]]:
    """Each answer with the row that came of the reports."""
    said: dict[tuple[str, str], list[Said]] = {}
    for offset, report in enumerate(reports(FLEET, END_MS)):
        one = standby_report(report.value)
        if one is not None:
            order, size = (report.at_ms, offset), one.record_bytes
            said.setdefault((one.job[0], one.task_name), []).append(
                Said("metrics", order, one.at_ms, one.offsets, one.host, one.execution_id or one.host, report.at_ms, size)
            )  # fmt: skip
    found: dict[tuple[str, str], tuple[Answer, Row]] = {}
    known = {(one.job, one.task): one for one in answers(FLEET, END_MS - 1)}
    for group in FLEET.groups:
        reported = {s.task: said.get((group.job, s.task), []) for s in group.standbys}
        job = Job(group.job, "1", Found.of([placed(group), Found(reports=reported)]))
        changelogs = {(group.topic, s.partition): s.changelog for s in group.standbys}
        ranges: Ranges = {
            at: OffsetRange(log.beginning_at(END_MS - 1), log.end_at(END_MS - 1))
            if log.has_leader
            else Unreachable("read it", seen="no leader", fix="start its broker")
            for at, log in changelogs.items()
        }
        every = replicas(job, ranges)
        asked = {at for one in every for at in one.times_asked(PATIENCE_MS)}
        since = {
            (topic, number, ms): changelogs[topic, number].end_at(ms - BEGAN_MS)
            for topic, number, ms in asked
            if ms < BEGAN_MS + END_MS
            and changelogs[topic, number].end_at(ms - BEGAN_MS)
            < changelogs[topic, number].end_at(END_MS - 1)
        }
        rows = [one.measure(PATIENCE_MS, since, all_observed=True) for one in every]
        with_readiness(job, every, since, Bounds(window_s=30), {})
        for row in rows:
            answer = known.get((group.job, row["task_name"]))
            if answer is not None:
                found[answer.job, answer.task] = answer, row
    return found


def test_every_lag_is_the_known_one() -> None:
    """Whatever a host's clock says; where it can't be known, null and why."""
    assert len(judged()) == len(list(answers(FLEET, END_MS - 1)))
    assert {answer.fault for answer, _ in judged().values()} == set(Fault) - {Fault.NO_CHANGELOG}
    for answer, row in judged().values():
        if answer.unknown_because == "former-process":
            continue  # nothing in Kafka tells that the process on that host is another one
        assert (row["lag_records"], row["unknown_because"]) == (
            answer.lag,
            answer.unknown_because,
        ), answer


def test_bytes_follow_from_records() -> None:
    """33 to a record: what the recorded standbys were given."""
    for _, row in judged().values():
        if row["lag_records"] is not None and row["applied_offset"] is not None:
            assert row["lag_bytes"] == row["lag_records"] * 33


def test_a_standby_that_stands_still_is_never_called_ready() -> None:
    """Its changelog grows, and it applies nothing of it."""
    stands = [
        row["status"]
        for answer, row in judged().values()
        if answer.fault is Fault.STALLED and (answer.lag or 0) > 0
    ]
    assert stands
    assert "ready" not in stands


def test_one_that_has_nothing_left_is_ready_or_not_proven_yet() -> None:
    """By three reports over the window."""
    stands = {
        row["status"]
        for answer, row in judged().values()
        if answer.fault is Fault.NONE and answer.lag == 0
    }
    assert stands <= {"ready", "unproven"}
    assert "ready" in stands
