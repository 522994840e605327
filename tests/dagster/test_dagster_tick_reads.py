"""What a tick of the sensors that look at the job takes by the clock, its reading of Kafka included.

1,000 containers on a real broker; each tick opens connections of its own, as under Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import dagster as dg
import pytest
from fleet import ACTIVES, HOSTS, Ticks
from reporting_fleet import BEHIND, COMMITS, RECORDS, ReportingFleet, leaders_page

from samza_dagster.client import PlacementClient
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch.auto_failover import auto_failover_sensor
from samza_dagster.orchestration.watch.checks import invariants_sensor, lag_slo_sensor
from samza_dagster.orchestration.watch.settings import AutoFailover, Invariants, LagSlo
from samza_dagster.placement.state import Phase

pytestmark = [pytest.mark.dagster, pytest.mark.longdagster]
TICKS = 5


@pytest.fixture(scope="module")
def fleet(bootstrap_servers: str) -> Iterator[ReportingFleet]:
    """One for all: a thousand partitions and 10,000 reports take seconds to write."""
    with leaders_page() as page:
        made = ReportingFleet(bootstrap_servers, page)
        yield made
        made.close()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: what was recorded is the instance's."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def test_the_look_that_is_timed_sees_all_that_the_job_reports(fleet: ReportingFleet) -> None:
    """Else a tick would be fast because it reads nothing."""
    fleet.beat()
    with PlacementClient(fleet.connection) as client:
        look = client.look()
    assert len(look.job.processors) == 2 * ACTIVES
    assert all(p.is_running for p in look.job.processors.values())
    assert sorted(lag.lag or 0 for lag in look.lags) == [0] * ACTIVES + [BEHIND] * ACTIVES
    assert {lag.basis for lag in look.lags} == {"running", "metrics"}
    assert [lag.lag for lag in look.input_lags] == [RECORDS - COMMITS] * ACTIVES
    assert len(look.host_words) == HOSTS


@pytest.mark.parametrize("down", [(), ("3",)], ids=["all run", "an active is down"])
@pytest.mark.parametrize("what", ["auto_failover", "lag_slo", "invariants"])
def test_a_look_at_a_thousand_containers_takes_a_tick_two_seconds_at_most(
    fleet: ReportingFleet, instance: dg.DagsterInstance, what: str, down: tuple[str, ...]
) -> None:
    """By the median."""
    sensors: dict[str, Callable[[], dg.SensorDefinition]] = {
        "auto_failover": lambda: auto_failover_sensor(AutoFailover()),
        "lag_slo": lambda: lag_slo_sensor(
            LagSlo.model_validate({"objectives": [{"records": 10_000, "seconds": 60}]})
        ),
        "invariants": lambda: invariants_sensor(Invariants(), PlacementPolicies(lag_limit=100)),
    }
    ticks = Ticks(instance, sensors[what](), fleet.samza)
    for active in down:
        fleet.set_phase(active, Phase.REQUESTING)
    try:
        for _ in range(TICKS):
            fleet.beat()
            result = ticks.tick()
            assert isinstance(result, dg.SensorResult), result
    finally:
        for active in down:
            fleet.set_phase(active, Phase.RUNNING)
    ticks.judge()
