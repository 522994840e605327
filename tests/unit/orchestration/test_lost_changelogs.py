"""What waits, plans and sensors make of a changelog that is gone or was made anew: never a warm standby."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.client.readiness import standbys_now
from samza_dagster.client.replica_lag import replica_lags, store_replicas
from samza_dagster.client.views import HostView, ReplicaLag
from samza_dagster.errors import Refused
from samza_dagster.lag import NewestReadiness, Pace, Published, StandbyStatus
from samza_dagster.metadata.job_topics import OffsetRange, Ranges
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.orchestration.assets.fleet import line_of
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.plans.conditions import (
    Reported,
    WarmUp,
)
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.requests.verify import NewReports
from samza_dagster.orchestration.watch.invariants import changelogs_there, within_limit
from samza_dagster.orchestration.watch.lag_objectives import breaches, followed
from samza_dagster.orchestration.watch.observation import observation_of
from samza_dagster.orchestration.watch.settings import LagObjective
from tests.rig.job_views import job, processor

pytestmark = pytest.mark.unit

LOG, STANDBY, OTHER = "log", "0-0", "1-0"
LOST: dict[str, Ranges] = {
    "deleted": {},
    "made anew with five records": {(LOG, 0): OffsetRange(0, 5), (LOG, 1): OffsetRange(0, 5)},
    "made anew and empty": {(LOG, 0): OffsetRange(0, 0), (LOG, 1): OffsetRange(0, 0)},
    "without its partition": {(LOG, 1): OffsetRange(0, 1_000)},
}
every_loss = pytest.mark.parametrize("ranges", LOST.values(), ids=LOST)


AT = {"0": "h1", STANDBY: "h2", "1": "h2", OTHER: "h3"}
HOSTS = {f"h{n}": HostView(f"h{n}", "alive") for n in range(1, 6)}
VIEW = job(*(processor(*at) for at in AT.items()), hosts=HOSTS, max_standbys=4)


def lags(ranges: Ranges) -> tuple[ReplicaLag, ...]:
    """As a client reads them: standbys say that they have applied 999, actives that they work."""
    store = StoreChangelog("s", "kafka", LOG)
    tasks = {one.tasks[0]: one for one in VIEW.processors.values()}
    partitions = {task: int(task.split()[1][0]) for task in tasks}
    samples = {
        task: TaskSample(
            *(task, str(one.host), 7, {store.offset_gauge(partitions[task]): 999}),
            *(str(one.execution_id), 3),
        )
        for task, one in tasks.items()
    }
    return replica_lags(
        store_replicas(VIEW, [store], partitions, ranges),
        samples=samples,
        checkpoints={},
        patience_ms=1,
        first_since={},
    )


def test_before_the_loss_all_are_warm() -> None:
    """What the tests below hold against each loss."""
    found = lags({(LOG, n): OffsetRange(0, 1_000) for n in (0, 1)})
    assert {lag.lag for lag in found} == {0}
    reported, warm = Reported.by(found), CatchUp(100, 0.0, 0.0)
    assert reported.is_warm(STANDBY, warm)
    assert reported.lost == {}
    (swap, *_) = drain_units(VIEW, "h1", reported, warm, DrainRules())
    assert swap.what == "swap"


@every_loss
def test_no_wait_for_a_warm_standby_ends_well(ranges: Ranges) -> None:
    """However often it is looked at, and however large the limit; the line says why."""
    watch, reported = WarmUp.of(STANDBY, CatchUp(10**9, 0.0, 60.0)), Reported.by(lags(ranges))
    assert not any(watch.look(reported, 1_000 * n) for n in range(9))
    assert f"topic {LOG}" in watch.line


@every_loss
def test_nothing_is_drained_into_a_restore_from_it(ranges: Ranges) -> None:
    """Neither onto its standby, nor by a new one, nor cold: it runs on where its state is."""
    reported, warm = Reported.by(lags(ranges)), CatchUp(10**9, 0.0, 0.0)
    assert "0" in reported.lags
    assert not reported.is_warm(STANDBY, warm)
    for rules in (DrainRules(), DrainRules(cold=True)):
        with pytest.raises(Refused, match=f"0: topic {LOG}"):
            drain_units(VIEW, "h1", reported, warm, rules)
    assert drain_units(VIEW, "h5", reported, warm, DrainRules()) == []


@every_loss
def test_a_takeover_by_it_waits_for_nobody_knows_how_long(ranges: Ranges) -> None:
    """It is the last choice, whatever pace was published of it."""
    pace = {
        f"Standby-P {n}-0": {(f"Standby-P {n}-0", "s", n): Pace(1e9, 0, 0, 5, 1e4)} for n in (0, 1)
    }
    newest = NewestReadiness(
        {
            f"{n}-0": Published(f"{n}-0", 1, 1, StandbyStatus.READY, "", pace[f"Standby-P {n}-0"])
            for n in (0, 1)
        }
    )
    well = [lag for lag in lags({(LOG, n): OffsetRange(0, 1_000) for n in (0, 1)})
            if lag.processor_id == OTHER]  # fmt: skip
    mine = [lag for lag in lags(ranges) if lag.processor_id == STANDBY]
    found = standbys_now(newest, [*mine, *well], (STANDBY, OTHER))
    assert found.standbys == (OTHER, STANDBY)
    assert found.notices[0].endswith("how long a takeover would wait for its state isn't known")


@every_loss
def test_the_checks_name_the_changelog_and_the_standby(ranges: Ranges) -> None:
    """`invariants`, `lag_slo` and the overview of a fleet."""
    found = lags(ranges)
    (told,) = changelogs_there(found)
    assert (told.subject, told.severity) == (f"changelog {LOG}", "ERROR")
    assert told.seen.startswith(f"store s: topic {LOG}")
    assert STANDBY in {finding.subject for finding in within_limit(found, 10**9)}
    objectives = [LagObjective(records=10**9)]
    breach = next(iter(breaches(objectives, found, followed({}, found, 1))))
    assert (breach.subject, f"topic {LOG}" in breach.seen) == (f"{STANDBY}/s", True)
    line = line_of("demo/1", VIEW, found, lambda: 0)
    assert any(f"changelog {LOG}" in trouble for trouble in line.troubles)


@every_loss
def test_a_restarted_standby_isnt_back_while_its_changelog_is_lost(ranges: Ranges) -> None:
    """A bounce waits for its lag: the reason is what is wrong with the topic, not the standby's silence."""
    mine = [lag for lag in lags(ranges) if lag.processor_id == STANDBY]
    seen = NewReports().look(mine, f"e{STANDBY}", 10**9, shown_by_work=False)
    assert f"its lag isn't known: topic {LOG}" in seen.why_not


@every_loss
def test_a_sensors_look_knows_it_for_lost_and_holds_it_against_nobody(ranges: Ranges) -> None:
    """Reports were read: silence is judged on."""
    seen = observation_of(VIEW, lags(ranges))
    standby = seen.by_id[STANDBY]
    assert (standby.left, standby.unread) == (None, False)
    assert f"topic {LOG}" in seen.lost["0"]
    assert seen.lost["0"] in seen.unread


def test_one_lost_partition_is_no_other_groups_trouble() -> None:
    """Its group alone is held."""
    reported, warm = Reported.by(lags(LOST["without its partition"])), CatchUp(100, 0.0, 0.0)
    assert set(reported.lost) == {"0", STANDBY}
    view = replace(VIEW, processors={p: v for p, v in VIEW.processors.items() if p in ("1", OTHER)})
    units = drain_units(view, "h2", reported, warm, DrainRules())
    assert [unit.what for unit in units] == ["swap"]
