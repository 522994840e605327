"""What a rolling bounce is going to do: decided once for a chain of runs, told before it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.config import CatchUp, given
from samza_dagster.orchestration.plans.bounce_config import RollingBounceConfig
from samza_dagster.orchestration.plans.move import UnitLimits, host_map
from samza_dagster.orchestration.plans.order import Schedule, order_of
from samza_dagster.orchestration.plans.units import (
    BounceJudge,
    Kind,
    Unit,
    UnitsPlan,
    UnitStep,
)
from samza_dagster.orchestration.policies import PlacementPolicies, bounds

if TYPE_CHECKING:
    from samza_dagster.client import JobView

BOUNCE = "bounce"


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
    limits = UnitLimits(
        **bounds(config, policies),
        catch_up=CatchUp(
            lag_limit=round(given(config.lag_limit, policies.lag_limit)),
            steady_s=0.0,
            timeout_s=float(config.lag_timeout_s),
            lag_limit_s=policies.lag_limit_s if config.lag_limit is None else 0.0,
        ),
    )
    plan = former or UnitsPlan(
        what=BOUNCE,
        subject="",
        job=f"{view.job_name}/{view.job_id}",
        coordinator=view.coordinator,
        units=tuple(_restart(view, p) for batch in batches for p in batch.members),
        schedule=Schedule(),
        limits=limits,
        before=host_map(view),
        batches=batches,
        watch_after=True,
    )
    return replace(
        plan,
        coordinator=view.coordinator,
        limits=limits,
        schedule=Schedule(
            unit=config.unit.value,
            at_once=config.at_once,
            canaries=min(config.canaries, len(batches)),
            bake_ms=config.bake_s * 1000,
            stop_after=config.stop_after_failures,
        ),
        judge=BounceJudge(config.judge_asset, config.judge_check, float(config.judge_timeout_s))
        if config.judge_check
        else None,
    )


def _restart(view: JobView, processor: str) -> Unit:
    """It starts anew where it is, and is back when it runs, works and has its lag back."""
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
    """The plan as Markdown: what is asked of whom, in which order."""
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
