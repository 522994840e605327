"""`auto_failover`: the sensor. What a tick does is imported by the first tick, not by every run."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

from collections.abc import Sequence
from typing import Any

import dagster as dg

from samza_dagster.orchestration.watch.audit import JOB
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import least_seconds
from samza_dagster.orchestration.waits.continuation import LaunchingSensor

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
        default_status=dg.DefaultSensorStatus.RUNNING
        if settings.running
        else dg.DefaultSensorStatus.STOPPED,
        description=f"Handles what a coordinator can't see; mode {mode}.",
    )
