"""What a rolling bounce is going to do: decided once for a chain of runs, told before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN, group_of
from samza_dagster.orchestration.chain import read_back
from samza_dagster.orchestration.config import given
from samza_dagster.orchestration.plans.bounce_config import RollingBounceConfig
from samza_dagster.orchestration.plans.move import HostRow, host_map
from samza_dagster.orchestration.plans.order import Batch, Schedule, order_of
from samza_dagster.orchestration.policies import PlacementPolicies, bounds

if TYPE_CHECKING:
    from samza_dagster.client import JobView

ACTIVE, STANDBY = "active", "standby"


@dataclass(frozen=True)
class Patience:
    """Seconds that a restart may take, and the lag in records that it must come back to.

    `verify_timeout_s` 0 doesn't wait for processing, `lag_s` 0 not for lag. `lag_limit_s`: or as many records
    as a standby applies in so many seconds, if that is more and known.
    """

    request_expiry_s: float
    timeout_s: float
    verify_timeout_s: float
    lag_s: float
    lag_limit: int
    lag_limit_s: float = 0.0

    def is_shown_by_work(self, mode: str) -> bool:
        """Whether the lag needs no report: an active processes only with its stores restored."""
        return self.verify_timeout_s > 0 and mode == ACTIVE


@dataclass(frozen=True)
class BounceJudge:
    """The asset check whose first result after the bake is the word on the canary."""

    asset: str
    check: str
    timeout_s: float


@dataclass(frozen=True)
class BouncePlan:
    """Order, schedule and patience of a bounce, and the job as it was before it."""

    job: str
    deployment_id: str
    coordinator: str
    units: tuple[Batch, ...]
    schedule: Schedule
    patience: Patience
    judge: BounceJudge | None
    hosts: Mapping[str, str]
    executions: Mapping[str, str]
    before: tuple[HostRow, ...]
    standbys: frozenset[str] = frozenset()
    """Those of them that are standbys."""
    groups: Mapping[str, str] | None = None
    """Processor → its group's active, by the job; None: of an earlier release."""

    @property
    def processors(self) -> tuple[str, ...]:
        """All that are to be bounced, in their order."""
        return tuple(p for unit in self.units for p in unit.members)

    def mode_of(self, processor_id: str) -> str:
        """`active` or `standby`."""
        return STANDBY if processor_id in self.standbys else ACTIVE

    def group_of(self, processor_id: str) -> str:
        """The active whose state it has, which is itself for an active."""
        return (self.groups or {}).get(processor_id) or group_of(processor_id)

    def record(self) -> dict[str, Any]:
        """What a later run of the chain needs of it, as JSON."""
        return {
            "units": [[unit.name, *unit.members] for unit in self.units],
            "hosts": dict(self.hosts),
            "modes": {p: self.mode_of(p) for p in self.processors},
            "executions": dict(self.executions),
            "before": [asdict(row) for row in self.before],
        }


def make_plan(
    view: JobView,
    config: RollingBounceConfig,
    policies: PlacementPolicies,
    former: Mapping[str, Any] | None = None,
) -> BouncePlan:
    """The plan; `former` is the record that an earlier run of the chain left.

    Order and the job as it was are those of the chain's first run, limits and times
    those of `config`. Raises `Refused` as `order_of` does.
    """
    if former is None:
        units = order_of(view, config.unit.value, config.only, config.skip)
        before = host_map(view)
        mine = [view.processors[p] for unit in units for p in unit.members]
        hosts = {p.processor_id: p.host or "" for p in mine}
        executions = {p.processor_id: p.execution_id for p in mine if p.execution_id is not None}
    else:
        units = tuple(Batch(name, tuple(processors)) for name, *processors in former["units"])
        before = read_back(tuple[HostRow, ...], former["before"])
        hosts, executions = former["hosts"], former["executions"]
    judge = (
        BounceJudge(config.judge_asset, config.judge_check, float(config.judge_timeout_s))
        if config.judge_check
        else None
    )
    return BouncePlan(
        job=f"{view.job_name}/{view.job_id}",
        deployment_id=view.deployment_id or "",
        coordinator=view.coordinator,
        units=units,
        schedule=Schedule(
            unit=config.unit.value,
            at_once=config.at_once,
            canaries=min(config.canaries, len(units)),
            bake_ms=config.bake_s * 1000,
            stop_after=config.stop_after_failures,
        ),
        patience=Patience(
            **bounds(config, policies),
            lag_s=float(config.lag_timeout_s),
            lag_limit=round(given(config.lag_limit, policies.lag_limit)),
            lag_limit_s=policies.lag_limit_s if config.lag_limit is None else 0.0,
        ),
        judge=judge,
        hosts=hosts,
        executions=executions,
        before=before,
        standbys=frozenset(p for p in hosts if view.is_standby(p)),
        groups={p: view.group_of(p) for p in hosts},
    )


def asked(config: RollingBounceConfig) -> dict[str, Any]:
    """The part of a config that decides the order; a chain keeps its plan while it stays."""
    return {
        "unit": config.unit.value,
        "only": sorted(config.only),
        "skip": sorted(config.skip),
    }


def describe(plan: BouncePlan, shown: int = 300) -> str:
    """The plan as Markdown: what is asked of whom, in which order."""
    schedule, patience = plan.schedule, plan.patience
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
        f"it runs anew; an active processes (within {patience.verify_timeout_s:g} s)"
        if patience.verify_timeout_s
        else "it runs anew (processing isn't waited for)"
    )
    lag = (
        f"; its lag is at most {patience.lag_limit:,} records (within {patience.lag_s:g} s)"
        if patience.lag_s
        else " (lag isn't waited for)"
    )
    judge = (
        f"check `{plan.judge.check}` of asset `{plan.judge.asset}` (within {plan.judge.timeout_s:g} s)"
        if plan.judge
        else "it still runs, processes and has its lag back"
    )
    lines = [
        f"**rolling_bounce** of {total} {unit} of `{plan.job}` in {len(plan.units)}"
        f" {'host(s)' if schedule.unit == 'hosts' else 'unit(s)'}, at most {schedule.at_once} at once,"
        " never two of a group",
        "",
        f"1. each: {way} (within {patience.timeout_s:g} s)",
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
    rows = [(n, unit, p) for n, unit in enumerate(plan.units, start=1) for p in unit.members]
    lines += [
        f"| {n} | {unit.name} | {plan.hosts[p]} | {p} | {plan.mode_of(p)} | {LAST_SEEN} |"
        for n, unit, p in rows[:shown]
    ]
    if len(rows) > shown:
        lines.append(f"\nand {len(rows) - shown} more in the same order")
    return "\n".join(lines)
