"""When a whole job counts as dead because nothing of it shows a sign: one rule, whoever looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import container

from samza_dagster.client.seen_reports import SeenReports
from samza_dagster.client.views import JobView, ProcessorView, ReplicaLag
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.watch.cursor import FailoverCursor, Kind
from samza_dagster.orchestration.watch.observation import Observation, observation_of
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import Look

pytestmark = pytest.mark.unit
BEGIN_MS = 1_700_000_000_000
PATIENCE_MS = 180_000
"""Three of Samza's default intervals."""
PLACES = {"0": "nm1", "0-0": "nm2", "1": "nm3"}
COMMITS, DEPLOYED = "a commit", "another deployment"
Looks = list[tuple[int, set[str]]]
"""The ms since the look before, and what has happened in between: who reported, and what else."""


class Job:
    """What two observers see of one job under Samza's AM, at each look."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        self.reports = {processor: n + 1 for n, processor in enumerate(PLACES)}
        self.commits, self.deployments = 1, 1

    def looks(self, history: Looks) -> Iterator[None]:
        for gap_ms, happened in history:
            self.now_ms += gap_ms
            for processor in happened & self.reports.keys():
                self.reports[processor] += 7
            self.commits += COMMITS in happened
            self.deployments += DEPLOYED in happened
            yield

    def sight(self) -> Observation:
        containers = tuple(
            container(
                *(p, host),
                state="last-seen",
                incarnation="",
                reported_ms=self.reports[p],
                left=0 if p == "0" else None,
                position=self.commits if p == "0" else None,
            )
            for p, host in PLACES.items()
        )
        hosts = dict.fromkeys(PLACES.values(), "alive")
        return Observation(
            *("demo/1", "samza", containers, hosts),
            deployment=f"run-{self.deployments}",
            report_patience_ms=PATIENCE_MS,
        )

    def lags(self) -> list[ReplicaLag]:
        return [
            ReplicaLag(
                *(p, f"task {p}", TaskMode.STANDBY, "s", "log", 0, host, 9, 8, 0, self.reports[p]),
                basis="metrics",
            )
            for p, host in PLACES.items()
        ]


def by_the_sensor(job: Job, history: Looks) -> Iterator[bool]:
    """`auto_failover`, by its cursor."""
    cursor = FailoverCursor("demo/1")
    for _ in job.looks(history):
        look = Look.at(job.sight(), cursor, AutoFailover(), job.now_ms)
        cursor = replace(look.cursor, looked_ms=job.now_ms)
        yield any(signal.kind == Kind.JOB_DEAD for signal in look.signals().values())


def by_the_client(job: Job, history: Looks) -> Iterator[bool]:
    """`status`, `invariants` and `lag_slo`, by what their process has seen."""
    seen = SeenReports()
    for _ in job.looks(history):
        deployment, now_s = f"run-{job.deployments}", job.now_ms / 1000
        view = JobView("demo", "1", deployment, {}, {}, report_every_s=PATIENCE_MS // 3_000)
        seen.judged(job.lags(), view, commits=job.commits, now_s=now_s)
        yield seen.silence(deployment, now_s=now_s) is not None


def quiet_for(seconds: int, *before: set[str]) -> Looks:
    return [(10_000, one) for one in before] + [(10_000, set())] * (seconds // 10)


ALL = set(PLACES)


@pytest.mark.parametrize(
    ("history", "dead"),
    [
        (quiet_for(140, ALL), False),
        (quiet_for(150, ALL), True),
        ([*quiet_for(140, ALL), (10_000, {"0-0"})], False),
        ([*quiet_for(140, ALL), (10_000, {COMMITS})], False),
        ([*quiet_for(140, ALL), (10_000, {COMMITS}), *quiet_for(150)], True),
        ([*quiet_for(140, ALL), (10_000, {DEPLOYED}), *quiet_for(140)], False),
        ([*quiet_for(140, ALL), (10_000, {DEPLOYED}), *quiet_for(150)], True),
        ([*quiet_for(150, ALL), (10_000, {"1"})], False),
    ],
    ids=[
        "two intervals and a third",
        "two intervals and a half",
        "one reports",
        "a task commits, so only the reporters are broken",
        "and then it doesn't any more",
        "another deployment has its own time",
        "which ends too",
        "a report of one brings it back",
    ],
)
def test_a_job_is_dead_when_nothing_of_it_has_shown_a_sign_for_two_intervals_and_a_half(
    history: Looks, dead: bool
) -> None:
    assert list(by_the_sensor(Job(), history))[-1] is dead
    assert list(by_the_client(Job(), history))[-1] is dead


happenings = st.sets(st.sampled_from([*PLACES, COMMITS, DEPLOYED]), max_size=2)


@given(st.lists(st.tuples(st.integers(1_000, 170_000), happenings), min_size=1, max_size=30))
def test_whoever_looks_says_the_same_of_a_silent_job(history: Looks) -> None:
    """Whatever happens between the looks."""
    assert list(by_the_sensor(Job(), history)) == list(by_the_client(Job(), history))


def test_a_frozen_active_s_commit_is_no_report_of_it() -> None:
    """After three intervals its lag falls back to that: it counted as a new report, and as well again."""
    container = ProcessorView("0", TaskMode.ACTIVE, "last-seen", "nm1")
    view = JobView("demo", "1", "run-1", {"0": container}, {})
    reported = ReplicaLag("0", "t", TaskMode.ACTIVE, "s", "log", 0, "nm1", 9, 8, 0, BEGIN_MS)
    committed = replace(reported, basis="checkpoint", observed_at_ms=BEGIN_MS - 1)
    looks = [replace(reported, basis="running"), committed]
    seen = [observation_of(view, [lag]).by_id["0"].reported_ms for lag in looks]
    assert seen == [BEGIN_MS, None]
