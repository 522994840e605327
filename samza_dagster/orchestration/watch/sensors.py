"""The sensors that judge a job. What a tick does is imported by the first tick, not by every run."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

from collections.abc import Sequence
from typing import Any

import dagster as dg

from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import least_seconds
from samza_dagster.orchestration.waits.continuation import LaunchingSensor
from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.watch.audit import JOB
from samza_dagster.orchestration.watch.settings import AutoFailover, Invariants, LagSlo

NAME = "auto_failover"


def auto_failover_sensor(settings: AutoFailover, jobs: Sequence[Any] = ()) -> dg.SensorDefinition:
    """`auto_failover` with the settings of the component's YAML.

    `jobs` are those that it launches: `audit_failover` and `move_with_standby`.
    """

    def auto_failover(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        from samza_dagster.orchestration.watch.failover_tick import evaluated

        return evaluated(context, samza, settings)

    mode = settings.mode or "shadow under Samza's AM, else advise"
    return LaunchingSensor(
        name=NAME,
        evaluation_fn=auto_failover,
        job_name=None if jobs else JOB,
        jobs=list(jobs) or None,
        minimum_interval_seconds=least_seconds(settings.interval_s),
        default_status=_status(settings.running),
        description=f"Handles what a coordinator can't see; mode {mode}.",
    )


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
