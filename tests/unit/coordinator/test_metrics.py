"""The metrics page, judged by Prometheus's own OpenMetrics parser."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rpds import HashTrieMap

from samza_dagster.coordinator.metrics import COUNTERS, JobMetrics, render
from samza_dagster.placement.state import (
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Limits,
    Orphan,
    Phase,
    Processor,
    Role,
)

pytestmark = pytest.mark.unit


def samples(state: JobState, counters: dict[str, int]) -> dict[tuple[str, ...], float]:
    page = render(JobMetrics(state, counters, leader_epoch=7, now_ms=10_000)).decode()
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "job")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_every_counter_is_there_from_0_under_samzas_name() -> None:
    """`failovers-to-standby` becomes `samza_dagster_failovers_to_standby_total`, and tells since when
    it counts.
    """
    metrics = JobMetrics(JobState("j-1"), {}, leader_epoch=1, now_ms=9_000, counting_since_ms=7_500)
    page = render(metrics).decode()
    families = {f.name: f for f in text_string_to_metric_families(page)}
    for name in COUNTERS:
        family = families["samza_dagster_" + name.replace("-", "_")]
        assert family.type == "counter"
        assert name in family.documentation
        assert [(s.name, s.labels, s.value) for s in family.samples] == [
            (f"{family.name}_total", {"job": "j-1"}, 0),
            (f"{family.name}_created", {"job": "j-1"}, 7.5),
        ]
    assert page.endswith("# EOF\n")


def test_counters_count_and_gauges_are_the_states() -> None:
    """Running, needed and flapping by role; hosts; what is on silent hosts; lag by standby."""
    incarnation = Incarnation(1, "e", "h1", "r")
    group = Group(
        "0",
        HashTrieMap(
            {
                "0": Processor("0", Role.ACTIVE, Phase.RUNNING, incarnation),
                "0-0": Processor(
                    "0-0", Role.STANDBY, Phase.WAITING, failed_at_ms=(9_000, 9_500, 9_999)
                ),
            }
        ),
        orphans=(Orphan("0-0", incarnation, 0, 0, ran=True),),
    )
    state = JobState(
        "j-1",
        groups=HashTrieMap({"0": group}),
        hosts=HashTrieMap({"h1": Host("h1"), "h2": Host("h2", alive=False)}),
        limits=Limits(retry_count=2, retry_window_ms=5_000),
        lags=HashTrieMap({"0-0": Lag("0-0", 12, None, 0)}),
    )
    seen = samples(state, {"failovers-to-standby": 3, "odd-one": 1})
    assert seen["samza_dagster_failovers_to_standby_total",] == 3
    assert seen["samza_dagster_odd_one_total",] == 1
    assert seen["samza_dagster_running_containers", "Active"] == 1
    assert seen["samza_dagster_running_containers", "Standby"] == 0
    assert seen["samza_dagster_needed_containers", "Standby"] == 1
    assert seen["samza_dagster_flapping_containers", "Standby"] == 1
    assert seen["samza_dagster_hosts_alive",] == seen["samza_dagster_hosts_lost",] == 1
    assert seen["samza_dagster_unaccounted_containers",] == 1
    assert seen["samza_dagster_standby_lag_records", "0-0"] == 12
    assert seen["samza_dagster_standby_lag_age_seconds", "0-0"] == 10
    assert seen["samza_dagster_leader_epoch",] == 7


def test_the_age_of_a_lag_tells_one_that_is_no_more_reported() -> None:
    """In seconds, of each whose lag is told; never negative."""
    lags = (Lag("0-0", 12, None, 8_500), Lag("0-1", 0, 0, 10_001), Lag("0-2", None, None, 0))
    state = JobState("j-1", lags=HashTrieMap({lag.processor_id: lag for lag in lags}))
    seen = samples(state, {})
    aged = {key[1]: value for key, value in seen.items() if key[0].endswith("lag_age_seconds")}
    assert aged == {"0-0": 1.5, "0-1": 0}


def test_a_standby_of_which_nothing_is_known_shows_unlike_one_that_reports() -> None:
    """Whether it never reported to this leader, not lately, or what can't be set against the changelog;
    one that doesn't run isn't expected to.
    """
    group = Group(
        "0",
        HashTrieMap(
            {
                name: Processor(name, Role.STANDBY, phase, Incarnation(1, "e", "h1", "r"))
                for name, phase in {
                    **dict.fromkeys(("reports", "never", "lately", "unread"), Phase.RUNNING),
                    "waits": Phase.WAITING,
                }.items()
            }
        ),
    )
    lags = (
        Lag("reports", 12, None, 9_000),
        Lag("lately", 12, None, 1_000, good_for_ms=5_000),
        Lag("unread", None, None, 9_000),
    )
    state = JobState(
        "j-1",
        groups=HashTrieMap({"0": group}),
        lags=HashTrieMap({lag.processor_id: lag for lag in lags}),
    )
    seen = samples(state, {})
    unknown = {key[1]: v for key, v in seen.items() if key[0].endswith("standby_lag_unknown")}
    assert unknown == {"reports": 0, "never": 1, "lately": 1, "unread": 1}
    unasked = JobMetrics(state, {}, leader_epoch=7, now_ms=10_000, observes_lags=False)
    assert b"standby_lag_unknown{" not in render(unasked)
