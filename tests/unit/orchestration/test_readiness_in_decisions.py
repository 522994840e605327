"""Waits, bounces, drains and the choice of a standby go by the published readiness and the lags of now."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_bounce_loop import Book, plan_of, run

from samza_dagster.client.views import CoordinatorKind, ReplicaLag
from samza_dagster.lag import (
    Judgement,
    NewestReadiness,
    Pace,
    Published,
    StandbyStatus,
    published,
)
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.config import CatchUp, MoveWithStandbyConfig, SpinUpStandbyConfig
from samza_dagster.orchestration.moves.planning import soonest_preferred
from samza_dagster.orchestration.operations.schedule import RunEnd
from samza_dagster.orchestration.plans.conditions import Reported, WarmUp
from samza_dagster.orchestration.policies import PlacementPolicies
from tests.rig.bounce_world import BounceWorld
from tests.rig.played_job import BEGIN_MS
from tests.rig.played_stores import task_of
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.unit


def known(standby: str, apply_per_s: float) -> NewestReadiness:
    """Its pace."""
    pace = Pace(apply_per_s, 0, 0, 6, 10_000)
    one = Published(standby, 0, 600_000, StandbyStatus.READY, "", {("task", "store", 0): pace})
    return NewestReadiness({standby: one})


def ready(standby: str, apply_per_s: float) -> tuple[bytes, bytes]:
    """As snapshots publish it."""
    paces = {(task_of(standby), "store", 0): Pace(apply_per_s, 0, 0, 6, 10_000)}
    return published(standby, Judgement(StandbyStatus.READY, ""), paces, BEGIN_MS, 600_000)


def reports(lag: int, at_ms: int, newest: NewestReadiness) -> Reported:
    one = ReplicaLag(
        *("0-1", "task", TaskMode.STANDBY, "store", "log", 0, "host-3", 100_000, 0, lag, at_ms),
        basis="metrics",
    )
    return Reported.by([one], newest)


BOUNDS = CatchUp(1_000, 30.0, 600.0, 2.0)


def is_warm(bounds: CatchUp, lag: int, newest: NewestReadiness) -> bool:
    """After four looks at four reports in 30 s."""
    watch = WarmUp.of("0-1", bounds)
    for at_ms in (0, 10_000, 20_000, 30_000):
        watch.look(reports(lag, at_ms + 1, newest), at_ms)
    return watch.is_warm


def test_a_new_standby_is_warm_within_seconds_of_its_own_pace() -> None:
    """9,000 records are 2 s of a fast one, and too many of a slow one, or of one that nobody knows."""
    assert is_warm(BOUNDS, 9_000, known("0-1", 5_000))
    assert not is_warm(BOUNDS, 9_000, known("0-1", 1_000))
    assert not is_warm(BOUNDS, 9_000, NewestReadiness())
    assert is_warm(BOUNDS, 1_000, NewestReadiness())
    assert not is_warm(replace(BOUNDS, lag_limit_s=0.0), 9_000, known("0-1", 5_000))


def test_a_wait_says_what_it_goes_by() -> None:
    """And why it doesn't go by one that is too old."""
    watch = WarmUp.of("0-1", BOUNDS)
    watch.look(reports(9_000, 1, known("0-1", 5_000)), 0)
    assert "(≤ 10,000, 2 s of its pace)" in watch.line
    watch.look(reports(9_000, 1, NewestReadiness(unused={"0-1": "its readiness is too old"})), 0)
    assert "its readiness is too old: it isn't used" in watch.line


@pytest.mark.parametrize(("apply_per_s", "end"), [(5_000, RunEnd.DONE), (500, RunEnd.STOPPED)])
def test_a_bounce_has_a_standby_back_within_seconds_of_its_own_pace(
    apply_per_s: float, end: RunEnd
) -> None:
    """It stays 1,000 records behind, where 100 are the limit."""
    world, book = BounceWorld(), Book()
    world.far.add("0-0")
    world.published = [ready("0-0", apply_per_s)]
    plan = plan_of(world, only=["0-0"], canaries=1, bake_s=10, lag_timeout_s=300)
    catch_up = replace(plan.limits.catch_up, lag_limit=100, lag_limit_s=1.0)
    limits = replace(plan.limits, catch_up=catch_up)
    assert run(world, book, replace(plan, limits=limits)).end is end


def test_a_drain_takes_a_standby_for_warm_within_seconds_of_its_own_pace() -> None:
    """As a wait does."""
    lags = {"0-0": 4_000, "1-0": 4_000, "2-0": None}
    reported, warm = Reported(lags, {}, {}, known("0-0", 5_000)), CatchUp(100, 0.0, 0.0, 1.0)
    assert [reported.is_warm(one, warm) for one in lags] == [True, False, False]


def test_a_limit_that_is_given_in_records_holds_alone() -> None:
    """Whoever writes 0 means 0."""
    policies = PlacementPolicies(lag_limit=50, lag_limit_s=3)
    given = SpinUpStandbyConfig(who="me", reason="a test", processor="0", lag_limit=0)
    by_policy = SpinUpStandbyConfig(who="me", reason="a test", processor="0")
    bounds = [c.catch_up(policies.lag_limit, policies.lag_limit_s) for c in (given, by_policy)]
    assert [(one.lag_limit, one.lag_limit_s) for one in bounds] == [(0, 0), (50, 3)]


@pytest.mark.parametrize(
    ("coordinator", "hosts", "soonest", "running", "chosen"),
    [
        # Samza's AM moves an active where it is told to: to the standby soonest ready, not the first
        ("samza", [], "0-1", "0-0 0-1", "0-1"),
        ("samza", [], "0-0", "0-0 0-1", "0-0"),
        # so does ours where the component's hosts bound what it may choose
        ("samza_dagster", ["a", "b", "c"], "0-1", "0-0 0-1", "0-1"),
        # without bounds it chooses by itself, by reports that it reads
        ("samza_dagster", [], "0-1", "0-0 0-1", None),
        # nothing is published: as before
        ("samza", [], None, "0-0 0-1", None),
        # one that runs comes before one that doesn't
        ("samza_dagster", ["a", "b", "c"], "0-1", "0-0", "0-0"),
    ],
)
def test_the_standby_soonest_ready_gives_its_place_where_nobody_names_one(
    coordinator: CoordinatorKind,
    hosts: list[str],
    soonest: str | None,
    running: str,
    chosen: str | None,
) -> None:
    """One that is named stays."""
    standbys = ("0-0", "0-1")
    job = SteppedJob(at={"0": "a", "0-0": "b", "0-1": "c"}, coordinator=coordinator)
    job.states = {one: "starting" for one in standbys if one not in running.split()}
    job.lag_now = {one: [10 if one == soonest else 9_000] for one in standbys}
    if soonest is not None:
        job.published = [ready(one, 500) for one in standbys]
    config = MoveWithStandbyConfig(who="me", reason="a test", processor="0")
    client = job.client()
    assert soonest_preferred(client.view(), config, client, hosts).standby == chosen
    named = config.model_copy(update={"standby": "0-0"})
    assert soonest_preferred(client.view(), named, client, hosts) is named
