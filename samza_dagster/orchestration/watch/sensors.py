"""The sensors that judge a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.orchestration.job_sensor import (
    Asking,
    JobTick,
    TickResult,
    by_a_client,
    job_sensor,
)
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch import failover_tick, names
from samza_dagster.orchestration.watch.check_tick import evaluated, invariants_tick, lag_slo_tick
from samza_dagster.orchestration.watch.remedies import FAIL_OVER
from samza_dagster.orchestration.watch.settings import AutoFailover, Invariants, LagSlo

NAME = "auto_failover"


def auto_failover_sensor(
    settings: AutoFailover, jobs: Sequence[Any] = (), prefix: str = ""
) -> dg.SensorDefinition:
    """`auto_failover` with the settings of the component's YAML.

    `jobs` are those that it launches: `fail_over`, `move_with_standby`, `restart_container`.
    """

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return failover_tick.evaluated(one, samza, client, settings)

    mode = settings.mode or "shadow under Samza's AM, else advise"
    description = f"Handles what a coordinator can't see; mode {mode}."
    return _judging(NAME, tick, settings, prefix, description, jobs=jobs, job_name=FAIL_OVER)


def invariants_sensor(
    settings: Invariants, policies: PlacementPolicies | None = None, prefix: str = ""
) -> dg.SensorDefinition:
    """`invariants` with the settings of the component's YAML, and the limit of its policies."""
    limit = (policies or PlacementPolicies()).lag_limit

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return evaluated(one, samza, lambda _: invariants_tick(client, settings, limit, prefix))

    description = "Judges from outside what must hold of a job, as asset checks."
    return _judging(names.INVARIANTS, tick, settings, prefix, description)


def lag_slo_sensor(settings: LagSlo, prefix: str = "") -> dg.SensorDefinition:
    """`lag_slo` with the objectives of the component's YAML."""

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return evaluated(one, samza, lambda now_ms: lag_slo_tick(client, settings, now_ms, prefix))

    description = "Holds the lag of standbys against objectives, as an asset check."
    return _judging(names.LAG_SLO, tick, settings, prefix, description)


def _judging(
    name: str,
    tick: Asking,
    settings: AutoFailover | Invariants | LagSlo,
    prefix: str,
    description: str,
    **launched: Any,
) -> dg.SensorDefinition:
    return job_sensor(
        name,
        by_a_client(tick),
        prefix=prefix,
        interval_s=settings.interval_s,
        running=settings.running,
        description=description,
        **launched,
    )
