"""The sensor `placement_responses`."""

from __future__ import annotations

import time
from collections.abc import Callable

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.orchestration.history.names import GROUP, HISTORY
from samza_dagster.orchestration.history.tick import recorded
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, in_each_job, job_sensor
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import since_boot


def placement_history_spec(
    job: str, prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetSpec:
    """The asset whose events the sensor `placement_responses` writes."""
    return dg.AssetSpec(
        asset_key(prefix, HISTORY),
        partitions_def=partitions,
        group_name=GROUP,
        description=f"Every outcome of a placement request of {job}, whoever asked.",
        kinds={"kafka"},
    )


def placement_responses_sensor(
    interval_s: int = 5,
    *,
    running: bool = True,
    no_end_s: int = 600,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    boot: Callable[[], tuple[str, int]] = since_boot,
    prefix: str = "",
) -> dg.SensorDefinition:
    """`placement_responses`: every outcome of a placement request as an event of `placement_history`.

    The first start ever is from now; after a lost cursor it goes on from the newest outcome that
    was recorded. A tick that is repeated records nothing twice: what the last events hold is
    passed over. A request that the sensor has seen without news for its own time-out, or `no_end_s`
    where that doesn't tell, is named once, as an observation. Dagster looks at sensors every 5 s at most.
    """

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return recorded(one, samza, client, no_end_s=no_end_s, now_ms=now_ms, boot=boot)

    return job_sensor(
        "placement_responses",
        in_each_job(tick),
        prefix=prefix,
        interval_s=interval_s,
        running=running,
        description="Records each outcome of a placement request in placement_history.",
    )
