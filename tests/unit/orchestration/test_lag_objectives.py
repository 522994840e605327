"""Objectives of standbys' lag: records, and seconds until ready by forecast."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.client.views import ReplicaLag
from samza_dagster.orchestration.watch.findings import NOTE
from samza_dagster.orchestration.watch.lag_objectives import (
    MOST_FOLLOWED,
    SAMPLES,
    breaches,
    followed,
    not_followed,
    timed,
)
from samza_dagster.orchestration.watch.settings import LagObjective
from tests.rig.job_views import lag

pytestmark = pytest.mark.unit


def looks(*records: int, end: int = 10_000) -> tuple[dict[str, Any], ReplicaLag]:
    samples: dict[str, Any] = {}
    newest = lag("0-0", 0)
    for number, behind in enumerate(records):
        newest = lag("0-0", behind, at=number * 1_000, end=end)
        samples = followed(samples, [newest], number * 1_000)
    return samples, newest


def test_records_over_the_objective_are_a_breach() -> None:
    """At the objective is none; an active has none."""
    rule = [LagObjective(records=100)]
    assert breaches(rule, [lag("0-0", 100), lag("0", 999)], {}) == []
    (found,) = breaches(rule, [lag("0-0", 101)], {})
    assert found.subject == "0-0/s"
    assert "101 records behind, the objective is 100" in found.seen


def test_an_unknown_lag_is_a_breach() -> None:
    """A dead standby reports nothing."""
    (found,) = breaches([LagObjective(records=100)], [lag("0-0", None)], {})
    assert "isn't known" in found.seen


def test_seconds_are_forecast_from_the_rate_that_was_seen() -> None:
    """1,000 a second, 8,000 left: 8 s."""
    samples, newest = looks(10_000, 9_000, 8_000)
    assert breaches([LagObjective(seconds=8)], [newest], samples) == []
    (found,) = breaches([LagObjective(seconds=7.9)], [newest], samples)
    assert "ready in 8 s" in found.seen


def test_one_that_makes_no_headway_is_a_breach_and_one_sample_is_none() -> None:
    """The rate isn't known from one report."""
    samples, newest = looks(500)
    assert breaches([LagObjective(seconds=1)], [newest], samples) == []
    samples, newest = looks(500, 500)
    (found,) = breaches([LagObjective(seconds=1)], [newest], samples)
    assert "no headway" in found.seen


def test_the_stricter_severity_counts_and_patterns_choose() -> None:
    """Each store of a standby is told once."""
    rules = [
        LagObjective(records=10),
        LagObjective(standby="0-*", records=50, severity="error"),
        LagObjective(store="other", records=0, severity="error"),
    ]
    found = {f.subject: f.severity for f in breaches(rules, [lag("0-0", 60), lag("1-0", 20)], {})}
    assert found == {"0-0/s": "ERROR", "1-0/s": "WARN"}


def test_only_the_furthest_behind_are_followed_and_few_samples_kept() -> None:
    """The cursor is bounded for any job."""
    many = [lag(f"{n}-0", n + 1) for n in range(1_000)]
    samples = followed({}, many, 0)
    assert len(samples) == MOST_FOLLOWED
    assert "999-0/s/0" in samples
    samples, _ = looks(*range(100, 80, -1))
    assert len(samples["0-0/s/0"]) == SAMPLES


def test_a_report_that_was_taken_in_adds_nothing_and_a_new_changelog_begins_anew() -> None:
    """Ticks come more often than reports."""
    samples = followed({}, [lag("0-0", 10, at=5)], 0)
    assert followed(samples, [lag("0-0", 10, at=5)], 9) == samples
    again = followed(samples, [lag("0-0", 3, at=6, end=10)], 10)
    assert len(again["0-0/s/0"]) == 1


def test_store_partitions_that_are_not_followed_are_counted_and_do_not_pass_in_silence() -> None:
    """Beyond those furthest behind no rate is known; a note says of how many, and fails nothing."""
    rules = [LagObjective(standby="1-*", seconds=1)]
    lags = [lag("1-0", n, partition=n) for n in range(1, MOST_FOLLOWED + 8)]
    others = [lag("2-0", 9_999, partition=n) for n in range(MOST_FOLLOWED)]
    samples = followed({}, timed(rules, [*lags, *others]), 0)
    assert {key.split("/")[0] for key in samples} == {"1-0"}
    (note,) = not_followed(rules, [*lags, *others], samples)
    assert (note.severity, note.seen) == (NOTE, "not followed: 7 store partitions")
    assert not_followed(rules, lags[-9:], samples) == []
    assert not_followed([LagObjective(records=1)], lags, {}) == []


def test_a_partition_without_headway_is_a_breach_whatever_is_not_known_of_its_store_s_others() -> (
    None
):
    """Those others may not even be followed."""
    samples, newest = looks(500, 500)
    other = lag("0-0", 3, partition=1)
    (found,) = breaches([LagObjective(seconds=1)], [other, newest], samples)
    assert "no headway" in found.seen
