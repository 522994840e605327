"""`readiness_now`: how many seconds each standby needs until it is warm, and the checks of a look.

What their runs do is in `readiness_now`, which only those runs import.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.choices import choice_of_a_job
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history.names import GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.tags import is_of_all, job_tags
from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.watch.settings import LagSlo

READINESS = "readiness_now"
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


Partitions = dg.PartitionsDefinition[str] | None
"""The jobs of a component of several."""


def readiness_now(prefix: str = "", partitions: Partitions = None) -> dg.AssetsDefinition:
    """The asset; `partitions` are the component's jobs if it has several."""
    samza = named(prefix, "samza")

    @dg.asset(  # pyright: ignore[reportUnknownMemberType]
        name=READINESS,
        key_prefix=prefix or None,
        group_name=GROUP,
        kinds={"kafka"},
        required_resource_keys={samza},
        partitions_def=partitions,
        description="Seconds until each standby is warm, by some looks one after the other: without"
        " Spark, and without the history that `standby_readiness` goes by.",
    )
    def forecast(
        context: dg.AssetExecutionContext, config: ReadinessConfig
    ) -> dg.MaterializeResult[Any]:
        """Looks a few times and forecasts. Changes nothing in the job."""
        from samza_dagster.orchestration.assets.readiness_now import forecast_now

        asked = getattr(context.resources, samza)
        return forecast_now(context, asked, config.samples, config.every_s)

    return forecast


def outside_check_specs(prefix: str = "") -> list[dg.AssetCheckSpec]:
    """Of the checks that the sensors tell and a run can look at.

    Without partitions: Dagster takes one evaluation of a partition that no run made, and no second.
    """
    texts = {**names.DESCRIPTIONS, names.OBJECTIVE: "The lag of every standby meets its objective."}
    return [
        dg.AssetCheckSpec(check, asset=asset_key(prefix, asset), description=texts[check])
        for check, asset in {**names.ASSETS, **names.SLO_ASSETS}.items()
    ]


def outside_checks_now(
    slo: LagSlo, standbys: int | None, prefix: str = ""
) -> dg.AssetChecksDefinition:
    """`outside_checks`: the same rules on demand, at one look and without patience."""
    samza, policies = named(prefix, "samza"), named(prefix, "samza_policies")

    @dg.multi_asset_check(
        name=named(prefix, "outside_checks"),
        specs=outside_check_specs(prefix),
        required_resource_keys={samza, policies},
    )
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        from samza_dagster.orchestration.assets.readiness_now import judged_now

        limit = getattr(context.resources, policies).lag_limit
        asked = getattr(context.resources, samza)
        yield from judged_now(slo, standbys, asked, limit, context.instance)

    return look


def readiness_job(job: str, prefix: str = "") -> Any:
    """`forecast_readiness`: the asset `readiness_now` in a run, without Spark."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, JOB),
        selection=dg.AssetSelection.assets(asset_key(prefix, READINESS)),
        executor_def=dg.in_process_executor,
        config=choice_of_a_job(JOB, job) if is_of_all(job) else None,
        tags=job_tags(job, JOB),
        description="Looks at the standbys' lag a few times and forecasts when each is warm."
        " Changes nothing in the Samza job.",
    )
