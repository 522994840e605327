"""What a sensor's tick costs where the job has 1,000 containers; who reads the job does so on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import dagster as dg
import pytest
from fleet import ACTIVES, HOSTS, REQUESTS, Fleet, Ticks

from samza_dagster.model import StatusCode
from samza_dagster.orchestration.choices import choices_sensor
from samza_dagster.orchestration.history import placement_responses_sensor
from samza_dagster.placement import texts
from tests.rig.sensor_ticks import partitions_kept

pytestmark = [pytest.mark.dagster, pytest.mark.longdagster]
ON_THE_WAY = (texts.RESOURCES_REQUESTED, texts.STANDBY_STOP_IN_PROGRESS, texts.STOP_IN_PROGRESS)


@pytest.fixture
def fleet(bootstrap_servers: str) -> Fleet:
    return Fleet(bootstrap_servers)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: what was recorded is the instance's."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def test_a_thousand_requests_with_several_statuses_cost_a_tick_two_seconds_at_most(
    fleet: Fleet, instance: dg.DagsterInstance
) -> None:
    """Those in flight, those that end, and the look after it; each outcome is recorded once."""
    ticks = Ticks(instance, placement_responses_sensor(), fleet.samza)
    ticks.tick()
    for message in ON_THE_WAY:
        fleet.respond(StatusCode.IN_PROGRESS, [message])
        assert not asset_events(ticks.tick())
    fleet.respond(StatusCode.SUCCEEDED, [texts.started("its host")])
    recorded: list[str] = []
    while events := asset_events(ticks.tick()):
        for event in events:
            instance.report_runless_asset_event(event)
        recorded += [str(event.metadata["request"].value) for event in events]
    assert sorted(recorded) == sorted(str(UUID(int=number)) for number in range(REQUESTS))
    ticks.judge()


def asset_events(
    result: dg.SensorResult | dg.SkipReason,
) -> list[dg.AssetMaterialization | dg.AssetObservation]:
    assert isinstance(result, dg.SensorResult)
    found = list(result.asset_events or [])
    assert not [event for event in found if isinstance(event, dg.AssetCheckEvaluation)]
    return found  # pyright: ignore[reportReturnType]


def test_a_thousand_choices_cost_a_tick_two_seconds_at_most(
    fleet: Fleet, instance: dg.DagsterInstance
) -> None:
    """All of them new, then a tenth of them gone and come, then nothing to do."""
    job = f"{fleet.name}/1"
    processors, hosts = f"{job}/processors", f"{job}/hosts"
    ticks = Ticks(instance, choices_sensor(job), fleet.samza)
    partitions_kept(instance, ticks.tick())
    assert len(instance.get_dynamic_partitions(processors)) == 2 * ACTIVES
    assert len(instance.get_dynamic_partitions(hosts)) == HOSTS
    for number in range(ACTIVES // 5):
        instance.delete_dynamic_partition(processors, str(number))
    instance.add_dynamic_partitions(processors, [f"gone-{n}" for n in range(ACTIVES // 5)])
    partitions_kept(instance, ticks.tick())
    there = set(instance.get_dynamic_partitions(processors))
    assert there == {p for n in range(ACTIVES) for p in (str(n), f"{n}-0")}
    assert isinstance(ticks.tick(), dg.SkipReason)
    ticks.judge()
