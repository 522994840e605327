"""`invariants` and `lag_slo`: the sensors. What a tick does is imported by the first tick."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

import dagster as dg

from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.watch.check_settings import Invariants, LagSlo
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import least_seconds


def invariants_sensor(settings: Invariants) -> dg.SensorDefinition:
    """`invariants` with the settings of the component's YAML."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=names.INVARIANTS,
        minimum_interval_seconds=least_seconds(settings.interval_s),
        default_status=_status(settings.running),
        description="Judges from outside what must hold of a job, as asset checks.",
    )
    def invariants(
        context: dg.SensorEvaluationContext,
        samza: SamzaClientResource,
        samza_policies: PlacementPolicies,
    ) -> dg.SensorResult | dg.SkipReason:
        from samza_dagster.orchestration.watch.check_tick import evaluated, invariants_tick

        limit = samza_policies.lag_limit
        return evaluated(
            context,
            samza,
            lambda client, _now: invariants_tick(client, settings, limit, samza.prefix),
        )

    return invariants


def lag_slo_sensor(settings: LagSlo) -> dg.SensorDefinition:
    """`lag_slo` with the objectives of the component's YAML."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=names.LAG_SLO,
        minimum_interval_seconds=least_seconds(settings.interval_s),
        default_status=_status(settings.running),
        description="Holds the lag of standbys against objectives, as an asset check.",
    )
    def lag_slo(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        from samza_dagster.orchestration.watch.check_tick import evaluated, lag_slo_tick

        return evaluated(
            context, samza, lambda client, now: lag_slo_tick(client, settings, now, samza.prefix)
        )

    return lag_slo


def _status(running: bool) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
