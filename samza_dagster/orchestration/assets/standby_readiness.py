"""`standby_readiness`: how many seconds each standby needs until it is warm, and the checks of a look."""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.checks import outside as outside_checks
from samza_dagster.orchestration.checks.events import evaluation
from samza_dagster.orchestration.checks.findings import Board, Finding, Patience, looked
from samza_dagster.orchestration.checks.lag_objectives import (
    OBJECTIVE,
    Objective,
    breaches,
    followed,
    forecast,
)
from samza_dagster.orchestration.checks.sensors import SLO_ASSETS, read_lags, under
from samza_dagster.orchestration.follow import errors_as_failures
from samza_dagster.orchestration.history.events import GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.pictures import lag_svg, picture
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import table
from samza_dagster.orchestration.tags import job_tags
from samza_dagster.orchestration.watching_ports import ReplicaLag, open_watch

READINESS = "standby_readiness"
JOB = "forecast_readiness"
SHOWN_ROWS = 1_000
DRAWN = 5
COLUMNS: Mapping[str, str] = {
    "standby": "processor id",
    "host": "where it runs",
    "records": "still to apply, the sum over its stores; empty: not known",
    "ready_in_s": "seconds until it has caught up, as it has been applying; empty: not known, or no headway",
    "soonest_s": "by the fastest of the rates seen",
    "latest_s": "by the slowest; empty: it paused",
    "why": "why there is no forecast",
}


class ReadinessConfig(dg.Config):
    """How long the standbys are looked at."""

    samples: int = Field(default=4, ge=2, le=60, description="Looks at the lag.")
    every_s: float = Field(
        default=5.0,
        ge=0,
        le=600,
        description="Seconds between them; at least the interval of the job's metrics reporter.",
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
    with errors_as_failures():
        client = open_watch(samza)
        try:
            looks: list[tuple[int, Sequence[ReplicaLag]]] = []
            samples: dict[str, Any] = {}
            for number in range(config.samples):
                if number:
                    time.sleep(config.every_s)
                lags = read_lags(client)
                at_ms = time.time_ns() // 1_000_000
                looks.append((at_ms, lags))
                samples = followed(samples, lags, at_ms)
                context.log.info(f"look {number + 1} of {config.samples}: {len(lags)} replicas")
        finally:
            client.close()
    rows = readiness_rows(samples, looks[-1][1])
    known = [row["ready_in_s"] for row in rows if row["ready_in_s"] is not None]
    return dg.MaterializeResult(
        metadata={
            "readiness": table(rows[:SHOWN_ROWS], tuple(COLUMNS), COLUMNS),
            "max_ready_in_s": max(known, default=0.0),
            "unknown": len(rows) - len(known),
            "lag_over_time": dg.MetadataValue.md(picture(lag_svg(drawn(looks)), "lag over time")),
            "dagster/row_count": len(rows),
        }
    )


def readiness_rows(
    samples: Mapping[str, Sequence[Sequence[int]]], lags: Sequence[ReplicaLag]
) -> list[dict[str, Any]]:
    """A row for each standby, those that need longest first."""
    of: dict[str, list[ReplicaLag]] = {}
    for lag in lags:
        if "-" in lag.processor_id:
            of.setdefault(lag.processor_id, []).append(lag)
    rows: list[dict[str, Any]] = []
    for standby, parts in sorted(of.items()):
        known = [lag.lag for lag in parts if lag.lag is not None]
        whole = len(known) == len(parts)
        ready = forecast(samples, parts)
        why = ""
        if not whole:
            why = "it doesn't report"
        elif ready is None:
            why = "it has reported only once"
        elif ready.ready_in_ms is None:
            why = "it makes no headway"
        rows.append(
            {
                "standby": standby,
                "host": parts[0].host,
                "records": sum(known) if whole else None,
                "ready_in_s": _seconds(ready.ready_in_ms if ready else None),
                "soonest_s": _seconds(ready.soonest_ms if ready else None),
                "latest_s": _seconds(ready.latest_ms if ready else None),
                "why": why,
            }
        )
    return sorted(rows, key=lambda r: (r["ready_in_s"] is not None, -(r["ready_in_s"] or 0.0)))


def drawn(looks: Sequence[tuple[int, Sequence[ReplicaLag]]]) -> dict[str, list[tuple[int, float]]]:
    """Lines of the standbys that were furthest behind at any look, and known."""
    lines: dict[str, dict[int, float]] = {}
    for at_ms, lags in looks:
        for lag in lags:
            if "-" in lag.processor_id and lag.lag is not None:
                line = lines.setdefault(lag.processor_id, {})
                line[at_ms] = line.get(at_ms, 0.0) + lag.lag
    worst = sorted(lines, key=lambda name: (-max(lines[name].values()), name))[:DRAWN]
    return {name: sorted(lines[name].items()) for name in worst}


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def outside_check_specs(prefix: str = "") -> list[dg.AssetCheckSpec]:
    """Of the checks that the sensors tell and a run can look at."""
    return [
        *(
            dg.AssetCheckSpec(
                check, asset=asset_key(prefix, asset), description=outside_checks.TOLD[check]
            )
            for check, asset in outside_checks.ASSETS.items()
        ),
        dg.AssetCheckSpec(
            OBJECTIVE,
            asset=asset_key(prefix, SLO_ASSETS[OBJECTIVE]),
            description="The lag of every standby meets its objective.",
        ),
    ]


def outside_checks_now(
    job: str,
    objectives: Sequence[Objective],
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
        now_ms = time.time_ns() // 1_000_000
        with errors_as_failures():
            client = open_watch(samza)
            try:
                view, lags = client.view(), read_lags(client)
                reported = {
                    p: locality.host
                    for p, locality in client.locality().processor_localities.items()
                    if locality.host
                }
            finally:
                client.close()
        found: dict[str, Sequence[Finding]] = {
            outside_checks.SAME_HOST: outside_checks.same_host(view),
            outside_checks.REPLICAS: outside_checks.replicas_present(view, standbys),
            outside_checks.ONE_OWNER: outside_checks.one_owner(view),
            outside_checks.LAG: outside_checks.within_limit(lags, samza_policies.lag_limit),
            outside_checks.LOCALITY: outside_checks.locality_agrees(view, reported),
            OBJECTIVE: breaches(objectives, lags, {}),
        }
        at_once = dict.fromkeys(found, Patience(looks=1))
        _, results = looked(Board(job), found, at_once, now_ms)
        assets = under(prefix, {**outside_checks.ASSETS, **SLO_ASSETS})
        for result in results:
            told = evaluation(result, assets[result.check], job, now_ms)
            yield dg.AssetCheckResult(
                asset_key=told.asset_key,
                check_name=told.check_name,
                passed=told.passed,
                severity=told.severity,
                description=told.description,
                metadata=told.metadata,
            )

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
