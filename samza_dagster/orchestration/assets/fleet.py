"""`fleet_overview`: each Samza job of a component at a glance.

What its run does is in `fleet_run`, which only that run imports.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

from typing import Any

import dagster as dg

from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history.names import GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.tags import job_tags

OVERVIEW = "fleet_overview"


def fleet_overview(prefix: str = "") -> dg.AssetsDefinition:
    """The asset of a component, of all its Samza jobs; needs no Spark."""
    samza = named(prefix, "samza")

    @dg.asset(  # pyright: ignore[reportUnknownMemberType]
        name=OVERVIEW,
        key_prefix=prefix or None,
        group_name=GROUP,
        kinds={"kafka"},
        required_resource_keys={samza},
        description="Each Samza job at a glance: its state, who coordinates it, its hosts, the worst"
        " lag, standbys that are missing, what runs now and what waits, and the last week's moves and"
        " bounces.",
    )
    def look(context: dg.AssetExecutionContext, config: SaidConfig) -> dg.MaterializeResult[Any]:
        from samza_dagster.orchestration.assets.fleet_run import overview_now

        return overview_now(context, getattr(context.resources, samza))

    return look


def fleet_job(job: str, prefix: str = "") -> Any:
    """`look_at_fleet`: the overview in a run."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, "look_at_fleet"),
        selection=dg.AssetSelection.assets(asset_key(prefix, OVERVIEW)),
        executor_def=dg.in_process_executor,
        tags=job_tags(job, "look_at_fleet"),
        description="Looks at each Samza job once, for `fleet_overview`. Changes nothing.",
    )
