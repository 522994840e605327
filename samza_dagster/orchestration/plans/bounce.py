"""The plan of a rolling bounce: decided once for a chain of runs, shown before it begins."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import Field, model_validator

from samza_dagster.client import JobView
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.config import DAY_S, MOST_LAG, CatchUp, Names, RunConfig, given
from samza_dagster.orchestration.plans.move import UnitLimits, host_map
from samza_dagster.orchestration.plans.order import Schedule, order_of
from samza_dagster.orchestration.plans.units import BounceJudge, Kind, Unit, UnitsPlan, UnitStep
from samza_dagster.orchestration.policies import PlacementPolicies, bounds

BOUNCE = "bounce"
MOST_AT_ONCE = 64


class BounceUnit(Enum):
    """The unit of a bounce: each container for itself, or all containers of a host."""

    containers = "containers"
    hosts = "hosts"


class RollingBounceConfig(RunConfig):
    """The containers to restart, how many at once, and when to stop."""

    unit: BounceUnit = Field(
        default=BounceUnit.containers,
        description="containers: each for itself; hosts: host after host, each with all its containers.",
    )
    only: Names = Field(
        default=[],
        description="Processor ids or host names to bounce. Empty: all.",
    )
    skip: Names = Field(default=[], description="Processor ids or host names to leave alone.")
    at_once: int = Field(
        default=1,
        ge=1,
        le=MOST_AT_ONCE,
        description="Containers that are down or not yet back at a time; one that failed or died counts until it runs. "
        "A standby that runs and hasn't reported its lag yet counts no more. Never two of a group.",
    )
    canaries: int = Field(
        default=1,
        ge=0,
        le=1_000,
        description="Units that go first, alone; then comes bake_s, then the judge. 0: none.",
    )
    bake_s: int = Field(
        default=60,
        ge=0,
        le=DAY_S,
        description="Seconds that the canary is watched before the others follow.",
    )
    judge_asset: str = Field(
        default="",
        max_length=255,
        description="Asset (parts joined by /) whose check judges the canary. Empty: the canary must "
        "still run, process and have its lag back.",
    )
    judge_check: str = Field(
        default="",
        max_length=255,
        description="Name of that asset's check; its first result after the bake counts.",
    )
    judge_timeout_s: int = Field(
        default=600, ge=1, le=DAY_S, description="Seconds to wait for that result; none is a no."
    )
    stop_after_failures: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Failures after which nothing more is asked. One of the canary always stops.",
    )
    lag_limit: int | None = Field(
        default=None,
        ge=0,
        le=MOST_LAG,
        description="Records that any store of a bounced container may be behind to count as back. "
        "Empty: the policy's.",
    )
    lag_timeout_s: int = Field(
        default=1_800,
        ge=0,
        le=DAY_S,
        description="Seconds from check-in until its lag is back; 0 doesn't wait for lag.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> RollingBounceConfig:
        if bool(self.judge_asset) != bool(self.judge_check):
            raise ValueError("judge_asset and judge_check go together")
        return self


def make_plan(
    view: JobView,
    config: RollingBounceConfig,
    policies: PlacementPolicies,
    former: UnitsPlan | None = None,
) -> UnitsPlan:
    """The plan; `former` is the one that an earlier run of the chain made.

    Order and the job as it was are those of the chain's first run, limits and times
    those of `config`. Raises `Refused` as `order_of` does.
    """
    batches = (
        former.order if former else order_of(view, config.unit.value, config.only, config.skip)
    )
    judge = BounceJudge(config.judge_asset, config.judge_check, float(config.judge_timeout_s))
    return UnitsPlan(
        what=BOUNCE,
        subject="",
        job=f"{view.job_name}/{view.job_id}",
        coordinator=view.coordinator,
        units=former.units
        if former
        else tuple(_restart(view, p) for batch in batches for p in batch.members),
        schedule=Schedule(
            unit=config.unit.value,
            at_once=config.at_once,
            canaries=min(config.canaries, len(batches)),
            bake_ms=config.bake_s * 1000,
            stop_after=config.stop_after_failures,
        ),
        limits=UnitLimits(
            **bounds(config, policies),
            catch_up=CatchUp(
                lag_limit=round(given(config.lag_limit, policies.lag_limit)),
                steady_s=0.0,
                timeout_s=float(config.lag_timeout_s),
                lag_limit_s=policies.lag_limit_s if config.lag_limit is None else 0.0,
            ),
        ),
        before=former.before if former else host_map(view),
        batches=batches,
        judge=judge if config.judge_check else None,
        watch_after=True,
    )


def _restart(view: JobView, processor: str) -> Unit:
    """Return the unit that restarts a container and waits until it runs, works and has its lag back."""
    return Unit.of(
        *(view, processor, "restart", "it is bounced"),
        UnitStep("", Kind.PLACE, processor, LAST_SEEN),
        UnitStep("", Kind.WAIT_BACK, processor),
    )


def asked(config: RollingBounceConfig) -> dict[str, Any]:
    """The part of a config that decides the order; a chain keeps its plan while it stays."""
    return {
        "unit": config.unit.value,
        "only": sorted(config.only),
        "skip": sorted(config.skip),
    }


def describe(plan: UnitsPlan, shown: int = 300) -> str:
    """Return the plan as Markdown: every request, in order."""
    schedule, limits = plan.schedule, plan.limits
    total = len(plan.processors)
    able = capabilities(plan.coordinator)
    unit, hold = "container(s)", "Samza's wire has no hold"
    if able.places_tasks:
        unit, hold = "processor(s)", "it ends its containers and starts them again"
    way = (
        f"reserve `{LAST_SEEN}` and hold it, then commit: stopped only when its place is held"
        if able.has_own_requests
        else f"one request for `{LAST_SEEN}`; {hold}. That it runs is known"
        " by its answer, that it works by its commits and metrics"
    )
    verify = (
        f"it runs anew; an active processes (within {limits.verify_timeout_s:g} s)"
        if limits.verify_timeout_s
        else "it runs anew (processing isn't waited for)"
    )
    lag = (
        f"; its lag is at most {limits.catch_up.lag_limit:,} records (within {limits.lag_s:g} s)"
        if limits.lag_s
        else " (lag isn't waited for)"
    )
    judge = (
        f"check `{plan.judge.check}` of asset `{plan.judge.asset}` (within {plan.judge.timeout_s:g} s)"
        if plan.judge
        else "it still runs, processes and has its lag back"
    )
    lines = [
        f"**rolling_bounce** of {total} {unit} of `{plan.job}` in {len(plan.order)}"
        f" {'host(s)' if schedule.unit == 'hosts' else 'unit(s)'}, at most {schedule.at_once} at once,"
        " never two of a group",
        "",
        f"1. each: {way} (within {limits.timeout_s:g} s)",
        f"2. its place is free again when {verify}{lag}",
        f"3. first {schedule.canaries} unit(s) alone, {schedule.bake_ms / 1000:g} s of bake, then the judge:"
        f" {judge}"
        if schedule.canaries
        else "3. no canary",
        f"4. {schedule.stop_after} failure(s) and nothing more is asked",
        "",
        "| # | unit | host | processor | mode | asked |",
        "|---|---|---|---|---|---|",
    ]
    rows = [
        (n, batch.name, plan.unit_of[p])
        for n, batch in enumerate(plan.order, start=1)
        for p in batch.members
    ]
    lines += [
        f"| {n} | {batch} | {unit.host} | {unit.processor} | {unit.mode} | {LAST_SEEN} |"
        for n, batch, unit in rows[:shown]
    ]
    if len(rows) > shown:
        lines.append(f"\nand {len(rows) - shown} more in the same order")
    return "\n".join(lines)
