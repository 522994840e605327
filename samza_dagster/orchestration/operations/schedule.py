"""How far each unit of an operation is, and what may begin next: order, limits, canary, budget of failures. Pure.

Samza's AM counts placement stops as failures, and too many in a row end the job. Where they
count, an operation leaves half of the budget to others: a unit that has spent its half waits until its
row of stops is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from samza_dagster.orchestration.plans.order import HOSTS, Batch, Schedule
from samza_dagster.orchestration.plans.units import Unit, UnitStep
from samza_dagster.orchestration.text import clock

if TYPE_CHECKING:
    from samza_dagster.client.stop_budget import StopBudget


class UnitStatus(StrEnum):
    """How far the work on one of them is."""

    WAITING = "waiting"
    IN_FLIGHT = "in flight"
    UP = "up"
    """A standby that runs again but hasn't reported its lag: its place is free, its group isn't."""
    STUCK = "stuck"
    """Asked, stopped perhaps, and without an end in time: it keeps its place."""
    BACK = "back"
    FAILED = "failed"
    GONE = "gone"


UNDER_WAY = (UnitStatus.IN_FLIGHT, UnitStatus.UP)
AT_WORK = (UnitStatus.STUCK, *UNDER_WAY)
"""Asked, and without an end yet."""
BAD = (UnitStatus.FAILED, UnitStatus.STUCK)
OVER = (UnitStatus.BACK, UnitStatus.GONE)


class RunEnd(StrEnum):
    """How an operation's run ended, as run tag `samza/bounce` has it."""

    DONE = "done"
    STOPPED = "stopped"
    TERMINATED = "terminated"


@dataclass(frozen=True)
class Progress:
    """The progress of one unit. Times are in ms since the epoch."""

    processor: str
    host: str
    """Where its container was when the plan was made."""
    mode: str
    status: UnitStatus = UnitStatus.WAITING
    what: str = ""
    at: int = 0
    """The number of the step that it is at."""
    attempt: int = 0
    uuid: str = ""
    """Its newest request; `attempt` is that request's number."""
    asked_ms: int | None = None
    """When its first request was written."""
    stop_ms: int | None = None
    """By the coordinator's clock, as the next two."""
    in_ms: int | None = None
    """When its container checked in."""
    back_ms: int | None = None
    """By the clock of the run."""
    failed_ms: int | None = None
    """When a request failed after it had stopped the container: its start was not seen."""
    down_s: float | None = None
    """From the stop to the check-in, by the coordinator's clock; None when no stop was reported."""
    first_commit_s: float | None = None
    """From the stop to the first commit after it."""
    seconds: float | None = None
    """From its request until it was back."""
    until_ms: int | None = None
    """It fails then, by the run's clock, if it stays as it is."""
    lag: int | None = None
    now_on: str = ""
    execution: str = ""
    """The incarnation that was seen last, on host `now_on`."""
    why: str = ""
    committed: int | None = None
    """Where the checkpoint topic ended when it was back."""
    standby: str | None = None
    """Started for its move; it lived between the next two, by the coordinator's clock."""
    standby_since_ms: int | None = None
    standby_until_ms: int | None = None

    @classmethod
    def of(cls, unit: Unit) -> Progress:
        """Return the progress of a unit that hasn't begun."""
        return cls(unit.processor, unit.host, unit.mode, what=unit.what)

    @property
    def has_died(self) -> bool:
        """Return whether it was back and died: its times were reported before."""
        return self.status is UnitStatus.FAILED and self.back_ms is not None


@dataclass(frozen=True)
class EndedStep:
    """A step of a unit from its request, or begin, until its end; ms since the epoch.

    `status` is that of its request, or what was waited for; empty where a wait has failed.
    """

    step: UnitStep
    begin_ms: int
    end_ms: int
    status: str = ""
    message: str = ""
    request: str = ""


@dataclass(frozen=True)
class Result:
    """The result of an operation and of each unit."""

    end: RunEnd
    because: str
    rows: tuple[Progress, ...]

    def are(self, *statuses: UnitStatus) -> list[Progress]:
        """The rows of these statuses."""
        return [row for row in self.rows if row.status in statuses]


class OperationPhase(StrEnum):
    """The phase of an operation."""

    WORKING = "working"
    BAKING = "baking"
    JUDGING = "judging"
    FINISHING = "finishing"
    ENDED = "ended"


@dataclass(frozen=True)
class Position:
    """Where an operation stands.

    `back_at_ms` is known of those that are BACK. `judged` is the judge's word on the canary, None before
    it. `busy` maps a group to the reason not to touch it now. `down` maps units this operation has touched
    to the reason they count as down (failed, or came back and died); `unsettled` maps units that came back
    to the reason this isn't certain yet. `paced` are units that have used up their stops for now. `group`
    maps a unit to its group: no two of a group are touched.
    """

    statuses: Mapping[str, UnitStatus]
    back_at_ms: Mapping[str, int] = field(default_factory=dict[str, int])
    judged: bool | None = None
    busy: Mapping[str, str] = field(default_factory=dict[str, str])
    down: Mapping[str, str] = field(default_factory=dict[str, str])
    unsettled: Mapping[str, str] = field(default_factory=dict[str, str])
    paced: Mapping[str, StopBudget] = field(default_factory=dict[str, "StopBudget"])
    group: Callable[[str], str] = field(kw_only=True)

    def are(self, *statuses: UnitStatus) -> list[str]:
        """Return those of these statuses."""
        return [p for p, status in self.statuses.items() if status in statuses]


@dataclass(frozen=True)
class Next:
    """The next step: units to ask, the phase, and why no (other) unit is asked."""

    phase: OperationPhase
    ask: tuple[str, ...] = ()
    because: str = ""
    until_ms: int | None = None
    is_over: bool = False
    """Nothing more is begun, though not everybody was asked."""
    ends_ms: int | None = None
    """The end of the operation, if no unit may be touched until then."""


def what_next(order: Sequence[Batch], schedule: Schedule, at: Position, now_ms: int) -> Next:
    """Decide which units to ask now: never two of a group, never more than `at_once` in flight or down.

    While it is unknown whether a container has died, no unit is asked, and the operation doesn't end.
    """
    todo = _what_next(order, schedule, at, now_ms)
    if not at.unsettled or not (todo.ask or todo.phase is OperationPhase.ENDED):
        return todo
    phase = OperationPhase.FINISHING if todo.phase is OperationPhase.ENDED else todo.phase
    why = "; ".join(list(at.unsettled.values())[:3])
    return Next(phase, because=f"{why}: whether somebody has asked for that is looked at")


def _what_next(order: Sequence[Batch], schedule: Schedule, at: Position, now_ms: int) -> Next:
    idle = OperationPhase.FINISHING if at.are(*UNDER_WAY) else OperationPhase.ENDED

    def over(because: str) -> Next:
        return Next(idle, because=because, is_over=True)

    canary = [p for batch in order[: schedule.canaries] for p in batch.members]
    bad = at.are(UnitStatus.FAILED, UnitStatus.STUCK)
    if any(p in canary for p in bad):
        return over(f"the canary failed: {', '.join(p for p in bad if p in canary)}")
    if len(bad) >= schedule.stop_after:
        return over(f"the budget of failures is spent: {', '.join(bad)}")
    if not at.are(UnitStatus.WAITING):
        return Next(idle, because="everybody was asked")
    pool: Sequence[Batch] = order
    not_begun = (UnitStatus.WAITING, UnitStatus.GONE)
    begun = any(status not in not_begun for p, status in at.statuses.items() if p not in canary)
    if canary and not begun:
        if any(at.statuses[p] in (UnitStatus.WAITING, *UNDER_WAY) for p in canary):
            pool = order[: schedule.canaries]
        elif at.judged is False:
            return over("the judge said no to the canary")
        elif at.judged is None:
            baked = max((at.back_at_ms.get(p, 0) for p in canary), default=0) + schedule.bake_ms
            if now_ms < baked:
                return Next(OperationPhase.BAKING, because="the canary is watched", until_ms=baked)
            return Next(OperationPhase.JUDGING, because="the canary is judged")
    return _choose(pool, schedule, at, now_ms)


def _choose(pool: Sequence[Batch], schedule: Schedule, at: Position, now_ms: int) -> Next:
    held = at.are(UnitStatus.IN_FLIGHT, UnitStatus.STUCK)
    taken = {at.group(p) for p in at.are(UnitStatus.STUCK, *UNDER_WAY)}
    failed = {at.group(p) for p in at.are(UnitStatus.FAILED, UnitStatus.STUCK)}
    down = {**at.down, **at.unsettled}
    down_now = [why for p, why in down.items() if p not in held]
    free = schedule.at_once - len(held) - len(down_now)
    if schedule.unit == HOSTS:
        pool = [batch for batch in pool if _has_work(batch, at, failed)][:1]
    is_one_left = False
    ask: list[str] = []
    why_not: list[str] = []
    until: list[int] = []
    for member in (p for batch in pool for p in batch.members):
        its = at.group(member)
        if at.statuses[member] != UnitStatus.WAITING or its in failed or its in taken:
            continue
        is_one_left = True
        if its in at.busy:
            why_not.append(at.busy[its])
            continue
        budget = at.paced.get(member)
        ready = budget.free_at_ms if budget is not None else None
        if budget is not None and ready is not None and ready > now_ms:
            why_not.append(
                f"{member} waits until {clock(ready)} UTC: {budget.counted} of the {budget.most} stops"
                " in a row that Samza's AM lets pass are spent"
            )
            until.append(ready)
            continue
        if len(ask) < free:
            ask.append(member)
            taken.add(its)
    because = "; ".join(dict.fromkeys(why_not[:3]))
    flying = at.are(*UNDER_WAY)
    if not ask and not flying and len(held) >= schedule.at_once:
        return Next(OperationPhase.ENDED, because="every place is held by a request without an end")
    if not ask and not flying and not is_one_left:
        return Next(OperationPhase.ENDED, because="of each group that is left a member has failed")
    if not ask and free <= 0 and down_now:
        waits = f"{'; '.join(down_now[:3])}: a container that failed or died keeps its place until it runs"
        return Next(OperationPhase.WORKING, because=waits)
    return Next(OperationPhase.WORKING, tuple(ask), because, min(until, default=None))


def _has_work(batch: Batch, at: Position, failed: Collection[str]) -> bool:
    return any(
        at.statuses[p] == UnitStatus.IN_FLIGHT
        or (at.statuses[p] == UnitStatus.WAITING and at.group(p) not in failed)
        for p in batch.members
    )
