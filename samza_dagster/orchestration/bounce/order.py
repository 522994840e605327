"""What a rolling bounce may restart next: its order, its limits, its canary. Pure.

Samza's AM counts placement stops as failures, and too many in a row end the job. Where they
count, a bounce leaves half of them to others: whose half is spent waits until its row is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from samza_dagster.errors import Refused
from samza_dagster.model.naming import group_of, is_standby
from samza_dagster.orchestration.map_picture import natural
from samza_dagster.orchestration.moves import LAST_SEEN_STATE, LOST, RUNNING
from samza_dagster.orchestration.pictures import clock

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ProcessorView
    from samza_dagster.client.stop_budget import StopBudget

CONTAINERS = "containers"
HOSTS = "hosts"
LEAVING = "leaving"


class Stand(StrEnum):
    """How far one processor's bounce is."""

    WAITING = "waiting"
    IN_FLIGHT = "in flight"
    UP = "up"
    """A standby that runs anew, and whose lag isn't reported yet: its place is free, its group isn't."""
    STUCK = "stuck"
    """Asked, stopped perhaps, and without an end in time: it keeps its place."""
    BACK = "back"
    FAILED = "failed"
    GONE = "gone"


UNDER_WAY = (Stand.IN_FLIGHT, Stand.UP)


class Phase(StrEnum):
    """What the bounce is at."""

    BOUNCING = "bouncing"
    BAKING = "baking"
    JUDGING = "judging"
    FINISHING = "finishing"
    ENDED = "ended"


@dataclass(frozen=True)
class Unit:
    """A container, or a host with all its containers, in the order in which they go."""

    name: str
    processors: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """`at_once` containers; `canaries` units alone, then `bake_ms`; `stop_after` failures."""

    unit: str = CONTAINERS
    at_once: int = 1
    canaries: int = 0
    bake_ms: int = 0
    stop_after: int = 1


@dataclass(frozen=True)
class Position:
    """Where a bounce stands.

    `back_at_ms` is known of those that are BACK. `judged` is the judge's word on the
    canary, None before it. `busy` says of a group why it isn't to be touched now, `down` of
    processors that this bounce has touched why they count as down: who failed, or was back
    and died.
    `paced` are those whose stops of late leave no room for one of a bounce. `halt`: somebody wants
    nothing more to be asked.
    """

    stands: Mapping[str, Stand]
    back_at_ms: Mapping[str, int] = field(default_factory=dict[str, int])
    judged: bool | None = None
    busy: Mapping[str, str] = field(default_factory=dict[str, str])
    down: Mapping[str, str] = field(default_factory=dict[str, str])
    paced: Mapping[str, StopBudget] = field(default_factory=dict[str, "StopBudget"])
    halt: str = ""

    def are(self, *stands: Stand) -> list[str]:
        """The processors that stand so."""
        return [p for p, stand in self.stands.items() if stand in stands]


@dataclass(frozen=True)
class Next:
    """What to do now: whom to ask, the phase, and why nobody (else) is asked."""

    phase: Phase
    ask: tuple[str, ...] = ()
    because: str = ""
    until_ms: int | None = None


def order_of(
    view: JobView, unit: str, only: Collection[str] = (), skip: Collection[str] = ()
) -> tuple[Unit, ...]:
    """The units in their order: standbys before actives, hosts with few containers first.

    A host with an active on it comes after all that have none. `only` and `skip` name
    processors or hosts. Raises `Refused` for a name that isn't there, when nothing is
    left, and for a processor that doesn't run: it would be lost among the others.
    """
    known = {*view.processors, *view.hosts, *(p.host for p in view.processors.values() if p.host)}
    unknown = sorted({*only, *skip} - known)
    if unknown:
        raise Refused(
            f"a bounce of what there is: {', '.join(unknown)}",
            seen=f"processors {', '.join(sorted(view.processors, key=natural))}",
            fix="processor ids or host names of the job",
        )
    load: dict[str, int] = {}
    for processor in view.processors.values():
        load[processor.host or ""] = load.get(processor.host or "", 0) + 1
    wanted = [
        p
        for p in view.processors.values()
        if p.state != LEAVING
        and (not only or p.processor_id in only or p.host in only)
        and p.processor_id not in skip
        and p.host not in skip
    ]
    _check(wanted)
    if unit == CONTAINERS:
        wanted.sort(
            key=lambda p: (
                not is_standby(p.processor_id),
                load[p.host or ""],
                p.host or "",
                natural(p.processor_id),
            )
        )
        return tuple(Unit(p.processor_id, (p.processor_id,)) for p in wanted)
    on: dict[str, list[str]] = {}
    for p in sorted(
        wanted, key=lambda p: (not is_standby(p.processor_id), natural(p.processor_id))
    ):
        on.setdefault(p.host or "", []).append(p.processor_id)
    hosts = sorted(on, key=lambda h: (any(not is_standby(p) for p in on[h]), load[h], h))
    return tuple(Unit(host, tuple(on[host])) for host in hosts)


def _check(wanted: Sequence[ProcessorView]) -> None:
    if not wanted:
        raise Refused("a bounce of at least one container", seen="none is left to bounce")
    down = [p for p in wanted if p.host is None or p.state not in (RUNNING, LAST_SEEN_STATE)]
    if down:
        raise Refused(
            "a bounce begins with containers that run",
            seen=", ".join(f"{p.processor_id} is {p.state}" for p in down),
            fix=f"wait until they run, or skip {', '.join(p.processor_id for p in down)}",
        )


def not_running(view: JobView) -> dict[str, str]:
    """Processor → why it isn't at work: by its state, or its host is lost."""
    idle: dict[str, str] = {}
    for p in view.processors.values():
        host = view.hosts.get(p.host) if p.host is not None else None
        if p.state not in (RUNNING, LAST_SEEN_STATE, LEAVING):
            idle[p.processor_id] = f"{p.processor_id} is {p.state}"
        elif host is not None and host.state == LOST:
            idle[p.processor_id] = f"host {p.host} is lost"
    return idle


def busy_groups(view: JobView, ours: Collection[str]) -> dict[str, str]:
    """Group → why it isn't to be touched now; `ours` are the requests of this bounce.

    An action of somebody else, a member that doesn't run, or a host that is lost.
    """
    busy: dict[str, str] = {}
    for processor, why in not_running(view).items():
        busy.setdefault(group_of(processor), why)
    for action in (*view.actions, *view.queued):
        if action.uuid not in ours:
            busy.setdefault(
                group_of(action.processor_id),
                f"request {action.uuid} for {action.processor_id} is {action.stage}",
            )
    return busy


def paced(view: JobView) -> dict[str, StopBudget]:
    """Whose stops of late, by anybody, have spent half of what Samza's AM lets pass."""
    budgets = view.stop_budgets.items()
    return {p: budget for p, budget in budgets if budget.is_low() and budget.is_ever_free}


def what_next(order: Sequence[Unit], limits: Limits, at: Position, now_ms: int) -> Next:
    """Whom to ask now. Never two of a group, never more than `at_once` in flight or down by it."""
    flying = at.are(*UNDER_WAY)
    idle = Phase.FINISHING if flying else Phase.ENDED
    waiting = at.are(Stand.WAITING)
    if at.halt:
        return Next(idle, because=at.halt)
    canary = [p for unit in order[: limits.canaries] for p in unit.processors]
    bad = at.are(Stand.FAILED, Stand.STUCK)
    if any(p in canary for p in bad):
        return Next(idle, because=f"the canary failed: {', '.join(p for p in bad if p in canary)}")
    if len(bad) >= limits.stop_after:
        return Next(idle, because=f"the budget of failures is spent: {', '.join(bad)}")
    if not waiting:
        return Next(idle, because="everybody was asked")
    pool: Sequence[Unit] = order
    not_begun = (Stand.WAITING, Stand.GONE)
    begun = any(stand not in not_begun for p, stand in at.stands.items() if p not in canary)
    if canary and not begun:
        if any(at.stands[p] in (Stand.WAITING, *UNDER_WAY) for p in canary):
            pool = order[: limits.canaries]
        elif at.judged is False:
            return Next(idle, because="the judge said no to the canary")
        elif at.judged is None:
            baked = max((at.back_at_ms.get(p, 0) for p in canary), default=0) + limits.bake_ms
            if now_ms < baked:
                return Next(Phase.BAKING, because="the canary is watched", until_ms=baked)
            return Next(Phase.JUDGING, because="the canary is judged")
    return _choose(pool, limits, at, now_ms)


def _choose(pool: Sequence[Unit], limits: Limits, at: Position, now_ms: int) -> Next:
    held = at.are(Stand.IN_FLIGHT, Stand.STUCK)
    taken = {group_of(p) for p in at.are(Stand.STUCK, *UNDER_WAY)}
    failed = {group_of(p) for p in at.are(Stand.FAILED, Stand.STUCK)}
    down = [why for p, why in at.down.items() if p not in held]
    free = limits.at_once - len(held) - len(down)
    if limits.unit == HOSTS:
        pool = [unit for unit in pool if _has_work(unit, at, failed)][:1]
    is_one_left = False
    ask: list[str] = []
    why_not: list[str] = []
    until: list[int] = []
    for processor in (p for unit in pool for p in unit.processors):
        group = group_of(processor)
        if at.stands[processor] != Stand.WAITING or group in failed or group in taken:
            continue
        is_one_left = True
        if group in at.busy:
            why_not.append(at.busy[group])
            continue
        budget = at.paced.get(processor)
        ready = budget.free_at_ms if budget is not None else None
        if budget is not None and ready is not None and ready > now_ms:
            why_not.append(
                f"{processor} waits until {clock(ready)} UTC: {budget.counted} of the {budget.most} stops"
                " in a row that Samza's AM lets pass are spent"
            )
            until.append(ready)
            continue
        if len(ask) < free:
            ask.append(processor)
            taken.add(group)
    because = "; ".join(dict.fromkeys(why_not[:3]))
    flying = at.are(*UNDER_WAY)
    if not ask and not flying and len(held) >= limits.at_once:
        return Next(Phase.ENDED, because="every place is held by a request without an end")
    if not ask and not flying and not is_one_left:
        return Next(Phase.ENDED, because="of each group that is left a member has failed")
    if not ask and free <= 0 and down:
        waits = f"{'; '.join(down[:3])}: who failed or died keeps its place until it runs"
        return Next(Phase.BOUNCING, because=waits)
    return Next(Phase.BOUNCING, tuple(ask), because, min(until, default=None))


def _has_work(unit: Unit, at: Position, failed: Collection[str]) -> bool:
    return any(
        at.stands[p] == Stand.IN_FLIGHT
        or (at.stands[p] == Stand.WAITING and group_of(p) not in failed)
        for p in unit.processors
    )
