"""A world, an instance and a sensor of checks on it, as Dagster runs it; and the checks on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import dagster as dg
import pytest
from lookout import LOOKOUTS, Lookout, LookoutSamza

from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch import checks
from samza_dagster.orchestration.watch.checks import invariants_sensor, outside_checks
from samza_dagster.orchestration.watch.settings import Invariants, LagSlo
from tests.rig.sensor_ticks import ticked

Evaluation = dg.AssetCheckEvaluation


class Stage:
    """A world, an instance and one of the two sensors."""

    def __init__(self, world: Lookout, instance: dg.DagsterInstance) -> None:
        self.world = world
        self.instance = instance
        self.sensor: dg.SensorDefinition = invariants_sensor(
            Invariants(grace_s=10), PlacementPolicies(lag_limit=100)
        )
        self.cursor: str | None = None

    def tick(self, *, kept: bool = True, times: int = 1) -> dict[str, Evaluation]:
        """The evaluations by check, of the last of so many ticks; `kept`: so was its cursor."""
        told: dict[str, Evaluation] = {}
        for _ in range(times):
            self.world.now_ms += 10_000
            samza = LookoutSamza(bootstrap_servers="here", job_name="demo")
            result = ticked(self.instance, self.sensor, samza, self.cursor)
            assert isinstance(result, dg.SensorResult)
            events = (e for e in result.asset_events or [] if isinstance(e, Evaluation))
            told = {event.check_name: event for event in events}
            if kept:
                self.cursor = result.cursor
        return told

    def on_demand(self, slo: LagSlo | None = None) -> dict[str, Evaluation]:
        """The evaluations by check of a run of `outside_checks`."""
        checks = outside_checks(slo or LagSlo(), Invariants())
        definitions = dg.Definitions(
            asset_checks=[checks],
            jobs=[dg.define_asset_job("look", selection=dg.AssetSelection.checks(checks))],
            resources={
                "samza": LookoutSamza(bootstrap_servers="here", job_name="demo"),
                "samza_policies": PlacementPolicies(lag_limit=100),
            },
        )
        look = definitions.resolve_job_def("look")
        result = look.execute_in_process(instance=self.instance)
        return {event.check_name: event for event in result.get_asset_check_evaluations()}


@contextmanager
def on_stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """One of each test's own; the sensors tell the world's time."""
    world = LOOKOUTS["here"] = Lookout()
    clock = SimpleNamespace(time_ns=lambda: world.now_ms * 1_000_000)
    monkeypatch.setattr(checks, "time", clock)  # not for Dagster, which dates its events by its own
    with dg.DagsterInstance.ephemeral() as instance:
        yield Stage(world, instance)
    LOOKOUTS.clear()
