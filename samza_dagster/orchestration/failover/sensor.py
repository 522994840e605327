"""`auto_failover`: the sensor. What a tick does is imported by the first tick, not by every run."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

import dagster as dg

from samza_dagster.orchestration.failover.audit import JOB
from samza_dagster.orchestration.failover.settings import AutoFailover
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import least_seconds

NAME = "auto_failover"


def auto_failover_sensor(settings: AutoFailover) -> dg.SensorDefinition:
    """`auto_failover` with the settings of the component's YAML."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=NAME,
        job_name=JOB,
        minimum_interval_seconds=least_seconds(settings.interval_s),
        default_status=dg.DefaultSensorStatus.RUNNING
        if settings.running
        else dg.DefaultSensorStatus.STOPPED,
        description=f"Handles what a coordinator can't see; mode {settings.mode}.",
    )
    def auto_failover(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        from samza_dagster.orchestration.failover.tick import evaluated

        return evaluated(context, samza, settings)

    return auto_failover
