"""What an operation may begin next: its order, its limits, its canary, its budget of failures. Pure.

Samza's AM counts placement stops as failures, and too many in a row end the job. Where they
count, an operation leaves half of them to others: whose half is spent waits until its row is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from samza_dagster.orchestration.plans.order import HOSTS, Batch, Schedule
from samza_dagster.orchestration.text import clock

if TYPE_CHECKING:
    from samza_dagster.client.stop_budget import StopBudget


class UnitStatus(StrEnum):
    """How far the work on one of them is."""

    WAITING = "waiting"
    IN_FLIGHT = "in flight"
    UP = "up"
    """A standby that runs anew, and whose lag isn't reported yet: its place is free, its group isn't."""
    STUCK = "stuck"
    """Asked, stopped perhaps, and without an end in time: it keeps its place."""
    BACK = "back"
    FAILED = "failed"
    GONE = "gone"


UNDER_WAY = (UnitStatus.IN_FLIGHT, UnitStatus.UP)


class OperationPhase(StrEnum):
    """What the operation is at."""

    WORKING = "working"
    BAKING = "baking"
    JUDGING = "judging"
    FINISHING = "finishing"
    ENDED = "ended"


@dataclass(frozen=True)
class Position:
    """Where an operation stands.

    `back_at_ms` is known of those that are BACK. `judged` is the judge's word on the
    canary, None before it. `busy` says of a group why it isn't to be touched now, `down` of
    those that this operation has touched why they count as down: who failed, or was back
    and died; `unsettled` of those that were back why that isn't known yet.
    `paced` are those whose stops of late leave no room for one more. `group` tells whose group one is of: no two of a group are touched.
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
        """Those of these statuses."""
        return [p for p, status in self.statuses.items() if status in statuses]


@dataclass(frozen=True)
class Next:
    """What to do now: whom to ask, the phase, and why nobody (else) is asked."""

    phase: OperationPhase
    ask: tuple[str, ...] = ()
    because: str = ""
    until_ms: int | None = None
    is_over: bool = False
    """Nothing more is begun, though not everybody was asked."""
    ends_ms: int | None = None
    """When the operation ends, if nobody may be touched until then."""


def what_next(order: Sequence[Batch], schedule: Schedule, at: Position, now_ms: int) -> Next:
    """Whom to ask now. Never two of a group, never more than `at_once` in flight or down by it.

    Nobody is asked, and nothing ends, while it isn't known whether somebody has died.
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
        waits = f"{'; '.join(down_now[:3])}: who failed or died keeps its place until it runs"
        return Next(OperationPhase.WORKING, because=waits)
    return Next(OperationPhase.WORKING, tuple(ask), because, min(until, default=None))


def _has_work(batch: Batch, at: Position, failed: Collection[str]) -> bool:
    return any(
        at.statuses[p] == UnitStatus.IN_FLIGHT
        or (at.statuses[p] == UnitStatus.WAITING and at.group(p) not in failed)
        for p in batch.members
    )
