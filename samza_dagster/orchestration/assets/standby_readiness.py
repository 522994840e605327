"""`standby_readiness`: how many seconds each standby needs until it is warm, and the checks of a look.

What their runs do is in `readiness_now`, which only those runs import.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history.events import GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tags
from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.watch.settings import LagSlo

READINESS = "standby_readiness"
JOB = "forecast_readiness"


class ReadinessConfig(SaidConfig):
    """Who wants the forecast and why, and how long the standbys are looked at."""

    samples: int = Field(default=4, ge=2, le=60, description="Looks at the lag.")
    every_s: float | None = Field(
        default=None,
        ge=0,
        le=600,
        description="Seconds between them. Empty: the interval of the job's metrics reporter, and 5 at"
        " least.",
    )


def standby_readiness(
    prefix: str = "", given: Mapping[str, Any] | None = None
) -> dg.AssetsDefinition:
    """The asset of a job; `given` are its resources where the code location's are another job's."""

    def with_own(
        context: dg.AssetExecutionContext, config: ReadinessConfig
    ) -> dg.MaterializeResult[Any]:
        return _standby_readiness(context, config, (given or {})["samza"])

    return dg.asset(  # pyright: ignore[reportUnknownMemberType]
        name=READINESS,
        key_prefix=prefix or None,
        group_name=GROUP,
        kinds={"kafka"},
        description="Seconds until each standby is warm, forecast from how fast it has been"
        " applying.",
    )(_standby_readiness if given is None else with_own)


def _standby_readiness(
    context: dg.AssetExecutionContext, config: ReadinessConfig, samza: SamzaClientResource
) -> dg.MaterializeResult[Any]:
    """Looks a few times and forecasts. Changes nothing in the job."""
    from samza_dagster.orchestration.assets.readiness_now import forecast_now

    return forecast_now(context, config, samza)


def outside_check_specs(prefix: str = "") -> list[dg.AssetCheckSpec]:
    """Of the checks that the sensors tell and a run can look at."""
    return [
        *(
            dg.AssetCheckSpec(check, asset=asset_key(prefix, asset), description=names.TOLD[check])
            for check, asset in names.ASSETS.items()
        ),
        dg.AssetCheckSpec(
            names.OBJECTIVE,
            asset=asset_key(prefix, names.SLO_ASSETS[names.OBJECTIVE]),
            description="The lag of every standby meets its objective.",
        ),
    ]


def outside_checks_now(
    job: str,
    slo: LagSlo,
    standbys: int | None,
    prefix: str = "",
    given: Mapping[str, Any] | None = None,
) -> dg.AssetChecksDefinition:
    """`outside_checks`: the same rules on demand, at one look and without patience.

    `given` are its resources where the code location's are another job's.
    """

    def look(
        context: dg.AssetCheckExecutionContext,
        samza: SamzaClientResource,
        samza_policies: PlacementPolicies,
    ) -> Iterator[dg.AssetCheckResult]:
        from samza_dagster.orchestration.assets.readiness_now import judged_now

        limit = samza_policies.lag_limit
        yield from judged_now(job, slo, standbys, prefix, samza, limit, context.instance)

    def with_own(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        own = given or {}
        yield from look(context, own["samza"], own["samza_policies"])

    return dg.multi_asset_check(
        name=named(prefix, "outside_checks"), specs=outside_check_specs(prefix)
    )(look if given is None else with_own)


def readiness_job(job: str, prefix: str = "") -> Any:
    """`forecast_readiness`: the asset `standby_readiness` in a run, without Spark."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, JOB),
        selection=dg.AssetSelection.assets(asset_key(prefix, READINESS)),
        executor_def=dg.in_process_executor,
        tags=job_tags(job, JOB),
        description="Looks at the standbys' lag a few times and forecasts when each is warm."
        " Changes nothing in the Samza job.",
    )
