"""What a rolling bounce is going to do: decided once for a chain of runs, told before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN, group_of
from samza_dagster.orchestration.chain import read_back
from samza_dagster.orchestration.config import given
from samza_dagster.orchestration.plans.bounce_config import RollingBounceConfig
from samza_dagster.orchestration.plans.move import HostRow, host_map
from samza_dagster.orchestration.plans.order import Batch, Schedule, order_of, paced
from samza_dagster.orchestration.policies import PlacementPolicies, bounds
from samza_dagster.orchestration.text import in_words

if TYPE_CHECKING:
    from samza_dagster.client import JobView

ACTIVE, STANDBY = "active", "standby"
NOT_MEASURED = "not measured yet"


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
class Measured:
    """Means by mode, in seconds: until one was back, until its place was free if that was sooner, down."""

    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    place_s: Mapping[str, float] = field(default_factory=dict[str, float])
    down_s: Mapping[str, float] = field(default_factory=dict[str, float])


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
    measured: Measured = Measured()
    waits_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Who waits because Samza's AM counts its stops of late, and how long."""
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
    measured: Measured | None = None,
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
        measured=measured or Measured(),
        standbys=frozenset(p for p in hosts if view.is_standby(p)),
        groups={p: view.group_of(p) for p in hosts},
        waits_s={p: budget.wait_ms / 1000 for p, budget in paced(view).items() if p in hosts},
    )


def asked(config: RollingBounceConfig) -> dict[str, Any]:
    """The part of a config that decides the order; a chain keeps its plan while it stays."""
    return {
        "unit": config.unit.value,
        "only": sorted(config.only),
        "skip": sorted(config.skip),
    }


def expected_s(
    left: Mapping[str, str],
    schedule: Schedule,
    measured: Measured,
    *,
    canaries_left: int = 0,
    bake_s: float,
    group_of: Callable[[str], str],
    waits_s: Mapping[str, float] | None = None,
    under_way_s: Mapping[str, float] | None = None,
) -> float | None:
    """Seconds until all of `left` (processor → mode) are back; None: nothing is measured.

    Each takes what its mode took so far, one that isn't measured what the other takes. It begins
    when a place is free and who went before it of its group, `group_of`, is back. `bake_s` is what
    is left of the bake; it counts where others come after the canary. Those in `waits_s` begin so much later, and
    whoever can goes on meanwhile; those in `under_way_s` have begun so long ago.
    """
    if not measured.seconds:
        return None
    other, waits, begun = max(measured.seconds.values()), waits_s or {}, under_way_s or {}
    group_free: dict[str, float] = {}

    def end(processors: Sequence[str], begin_s: float) -> float:
        places, last = [begin_s] * schedule.at_once, begin_s
        for p in sorted(processors, key=lambda p: (p not in begun, waits.get(p, 0.0))):
            takes = measured.seconds.get(left[p], other)
            ago = begun.get(p, 0.0)
            start = max(heappop(places), waits.get(p, 0.0), group_free.get(group_of(p), 0.0))
            heappush(places, start + max(0.0, measured.place_s.get(left[p], takes) - ago))
            back = group_free[group_of(p)] = start + max(0.0, takes - ago)
            last = max(last, back)
        return last

    order = list(left)
    canary, rest = order[:canaries_left], order[canaries_left:]
    first = end(canary, 0.0)
    return end(rest, first + bake_s) if rest else first


def time_in_words(
    took_s: float | None, waits_s: Mapping[str, float], *, is_least: bool = False
) -> str:
    """What `expected_s` says, for a person; the longest wait while nothing is measured, or nothing.

    `is_least`: a mode among them isn't measured, and may take longer.
    """
    if took_s is not None:
        return f"{'at least' if is_least else 'about'} {in_words(took_s)}"
    longest = max(waits_s.values(), default=0.0)
    return f"at least {in_words(longest)}" if longest else ""


def describe(plan: BouncePlan, shown: int = 300) -> str:
    """The plan as Markdown: what is asked of whom, in which order, and how long it may take."""
    schedule, patience = plan.schedule, plan.patience
    total = len(plan.processors)
    first = sum(len(u.members) for u in plan.units[: schedule.canaries])
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
    modes = {p: plan.mode_of(p) for p in plan.processors}
    took = expected_s(
        modes,
        schedule,
        plan.measured,
        canaries_left=first,
        bake_s=schedule.bake_ms / 1000 if first else 0.0,
        group_of=plan.group_of,
        waits_s=plan.waits_s,
    )
    is_least = not plan.measured.seconds.keys() >= set(modes.values())
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
        f"Expected in all: {time_in_words(took, plan.waits_s, is_least=is_least) or NOT_MEASURED}."
        f" Down each: {_downs(plan.measured)}.",
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


def _downs(measured: Measured) -> str:
    medians = [f"{mode} {seconds:.1f} s" for mode, seconds in sorted(measured.down_s.items())]
    return ", ".join(medians) + " (median of earlier bounces)" if medians else NOT_MEASURED
