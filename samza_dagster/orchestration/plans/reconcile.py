"""What it takes to bring a job back to its wanted placement: steps with reasons. Pure.

Wanted: each active has the job's number of standbys, everything runs, no standby that one
of our failed runs spun up is left over, no two of a group share a host, and whoever is
pinned is on its host. Nobody is sent where the coordinator's rules forbid it. What the
coordinator does by itself is told, not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from samza_dagster.errors import Refused
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import one_more_of
from samza_dagster.orchestration.plans import move
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitStep, standby_placed

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ProcessorView
    from samza_dagster.client.legal_hosts import Placing

_WAIT = "the coordinator starts it by itself; reconcile again, or samza-dagster status says why not"


@dataclass(frozen=True)
class Finding:
    """What isn't as wanted and isn't ours to ask for: seen, and what to do."""

    about: str
    seen: str
    to_do: str


def unwell(view: JobView) -> dict[str, list[Finding]]:
    """Of each group the members that don't run, if any.

    The coordinator starts them by itself, and nothing is asked of their groups meanwhile.
    """
    found: dict[str, list[Finding]] = {}
    for pid, processor in sorted(view.processors.items()):
        if processor.state not in (move.RUNNING, move.LAST_SEEN_STATE):
            seen = f"it is {processor.state} on {processor.host or 'no host'}"
            found.setdefault(view.group_of(pid), []).append(Finding(pid, seen, _WAIT))
    return found


def localities(view: JobView) -> list[Finding]:
    """Containers that run elsewhere than the coordinator stream says: its coordinator's to write."""
    return [
        Finding(
            p.processor_id,
            f"it runs on {p.host}, the coordinator stream says {p.last_seen_host}",
            "restart_container writes it anew; after a failover it agrees within seconds",
        )
        for _, p in sorted(view.processors.items())
        if _disagrees(p)
    ]


def _disagrees(processor: ProcessorView) -> bool:
    known, host = processor.last_seen_host, processor.host
    return processor.state == move.RUNNING and None not in (known, host) and known != host


def _no_host(processor_id: str, why: str) -> Finding:
    """A step that has nowhere to go, by the rules or for want of room."""
    return Finding(
        processor_id,
        f"{why}; no legal host has room for it",
        "one more host that is alive and has no container of its group, nor of its fault domain",
    )


LEFT_OVER, SHARED_HOST, PINNED, MISSING = "left over", "shared host", "pinned", "missing standby"


@dataclass(frozen=True)
class WantedPlacement:
    """The placement that a job should have.

    `standbys` of each active; None: the most that any active has of the job's own. `pins`
    are processor → host. `ours`: standbys that failed runs of ours have left over. With
    `no_extra` every standby that was spun up on request goes that isn't needed for the number.
    `only` and `skip` are processors or hosts: they stand for their groups, and for those of
    whoever is on the host.
    """

    standbys: int | None = None
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    ours: frozenset[str] = frozenset()
    no_extra: bool = False
    allowed: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reconciliation:
    """What is to be asked, in order, and what else was found."""

    units: tuple[Unit, ...]
    findings: tuple[Finding, ...]


def reconcile(view: JobView, wanted: WantedPlacement) -> Reconciliation:
    """The steps from the job as it stands to the wanted placement; none when it is that.

    A group that an action is under way in is left alone. Raises `Refused` for pins that
    can't hold (`_check_pins`), and for an `only` or `skip` that isn't there.
    """
    _check_pins(view, wanted.pins, wanted.allowed)
    chosen = _chosen(view, wanted)
    world = _World.of(view, wanted.allowed)
    findings: list[Finding] = []
    units: list[Unit] = []
    busy = {view.group_of(a.processor_id): a.uuid for a in (*view.actions, *view.queued)}
    number, down = _number(view, wanted), unwell(view)
    for active in sorted(chosen):
        if active in busy:
            findings.append(
                Finding(active, f"action {busy[active]} is under way", "reconcile again after it")
            )
            continue
        if active in down:
            findings += down[active]
            continue
        units += _left_over(world, active, number, wanted)
        units += _shared(world, active, wanted, findings)
        units += _pinned(world, active, wanted, findings)
        units += _missing(world, active, number, findings)
        findings += _together(world, active)
    if units:
        move.require_named_hosts(view, "reconcile")
    findings += [one for one in localities(view) if view.group_of(one.about) in chosen]
    return Reconciliation(tuple(units), tuple(findings))


def _chosen(view: JobView, wanted: WantedPlacement) -> set[str]:
    """The actives whose groups are reconciled."""
    names = {*view.processors, *view.hosts, *(p.host for p in view.processors.values() if p.host)}
    unknown = sorted({*wanted.only, *wanted.skip} - names)
    if unknown:
        raise Refused(
            f"reconcile: only or skip {', '.join(unknown)}",
            seen=f"processors {', '.join(sorted(view.processors))}",
            fix="processor ids or host names of the job",
        )

    def groups(named: tuple[str, ...]) -> set[str]:
        found = [p for p in view.processors.values() if {p.processor_id, p.host} & {*named}]
        return {view.group_of(p.processor_id) for p in found}

    actives = {p for p in view.processors if not view.is_standby(p)}
    return (actives & groups(wanted.only) if wanted.only else actives) - groups(wanted.skip)


@dataclass
class _World:
    """The placement as it will be once the steps so far are done."""

    view: JobView
    at: dict[str, str]
    free: dict[str, int | None]
    allowed: tuple[str, ...]
    placing: Placing
    groups: dict[str, set[str]]
    load: Counter[str]

    @classmethod
    def of(cls, view: JobView, allowed: tuple[str, ...]) -> _World:
        from samza_dagster.client.legal_hosts import (
            Placing,  # late: it would delay each run's start
        )

        at = {p.processor_id: p.host for p in view.processors.values() if p.host is not None}
        free = {name: host.free_memory_mb for name, host in view.hosts.items()}
        groups: dict[str, set[str]] = {}
        for processor_id in at:
            groups.setdefault(view.group_of(processor_id), set()).add(processor_id)
        return cls(view, at, free, allowed, Placing(view), groups, Counter(at.values()))

    def members(self, active: str) -> list[str]:
        return sorted(self.groups.get(active, ()))

    def standbys(self, active: str) -> list[str]:
        return [p for p in self.members(active) if self.view.is_standby(p)]

    def is_extra(self, processor_id: str) -> bool:
        known = self.view.processors.get(processor_id)
        return known is not None and known.extra

    def go(self, processor_id: str, host: str | None) -> None:
        size = self.view.container_memory_mb or 0
        source = self.at.pop(processor_id, None)
        for name, change in ((source, size), (host, -size)):
            known = self.free.get(name) if name is not None else None
            if name is not None and known is not None:
                self.free[name] = known + change
        self.placing.put(processor_id, host)
        members = self.groups.setdefault(self.view.group_of(processor_id), set())
        members.discard(processor_id)
        if source is not None:
            self.load[source] -= 1
        if host is not None:
            self.at[processor_id] = host
            self.load[host] += 1
            members.add(processor_id)

    def place_for(
        self,
        processor_id: str,
        avoid: Collection[str] = (),
        *,
        before: tuple[str, str] | None = None,
    ) -> str | None:
        """The legal host with room that has most free memory, fewest containers, first name.

        `before` says who of its group goes where once it is there: legal beside that as well.
        """
        size = self.view.container_memory_mb or 0
        group = self.view.group_of(processor_id)
        taken = {self.at[p] for p in self.members(group)} | set(avoid)
        taken |= self.placing.forbidden(processor_id)
        if before is not None:
            comes, there = before
            self.placing.put(comes, there)
            taken |= self.placing.forbidden(processor_id)
            self.placing.put(comes, self.at[comes])
        legal = [
            name
            for name in self.view.hosts
            if name not in taken
            and (not self.allowed or name in self.allowed)
            and ((free := self.free[name]) is None or free >= size)
        ]
        return min(legal, key=lambda n: (-(self.free[n] or 0), self.load[n], n), default=None)


def _number(view: JobView, wanted: WantedPlacement) -> int:
    if wanted.standbys is not None:
        return wanted.standbys
    own = (
        view.group_of(p)
        for p, known in view.processors.items()
        if view.is_standby(p) and not known.extra
    )
    return max(Counter(own).values(), default=0)


def _left_over(world: _World, active: str, number: int, wanted: WantedPlacement) -> list[Unit]:
    """Extra standbys that go: none that is needed for the number, the newest first."""
    units: list[Unit] = []
    for standby in reversed(world.standbys(active)):
        ours = standby in wanted.ours
        if not world.is_extra(standby) or not (ours or wanted.no_extra):
            continue
        if len(world.standbys(active)) <= number:
            break
        why = (
            "a run of ours that didn't end well spun it up" if ours else "it was spun up on request"
        )
        step = UnitStep("remove", Kind.STOP_STANDBY, standby)
        why = f"{why}; {number} standbys are wanted"
        units.append(Unit.of(world.view, standby, LEFT_OVER, why, step))
        world.go(standby, None)
    return units


def _shared(
    world: _World, active: str, wanted: WantedPlacement, findings: list[Finding]
) -> list[Unit]:
    """Who leaves a host that two of the group are on: not who is pinned there, rather a standby."""
    units: list[Unit] = []
    pins = {wanted.pins[p] for p in world.members(active) if p in wanted.pins}
    for host in sorted({world.at[p] for p in world.members(active)}):
        there = [p for p in world.members(active) if world.at[p] == host]
        stays = min(there, key=lambda p: (wanted.pins.get(p) != host, world.view.is_standby(p), p))
        for pid in there:
            if pid == stays:
                continue
            why = f"it is on {host} as {stays} of its group is"
            pin = wanted.pins.get(pid)
            free = pin is not None and world.placing.violation(pid, pin) is None
            to = pin if free else world.place_for(pid, pins) or world.place_for(pid)
            if to is None:
                findings.append(_no_host(pid, why))
                continue
            units.append(_place(world.view, pid, to, SHARED_HOST, why))
            world.go(pid, to)
    return units


def _pinned(
    world: _World, active: str, wanted: WantedPlacement, findings: list[Finding]
) -> list[Unit]:
    units: list[Unit] = []
    moving = [p for p in world.members(active) if p in wanted.pins]
    for pid in sorted(moving, key=lambda p: (world.view.is_standby(p), p)):
        host = wanted.pins[pid]
        if world.at[pid] == host:
            continue
        for other in world.placing.in_the_way(pid, host):
            where = (
                "where it is" if world.at[other] == host else f"in whose fault domain {other} is"
            )
            why, then = f"{pid} is wanted on {host}, {where}", (pid, host)
            away = world.place_for(other, avoid=[host, *wanted.pins.values()], before=then)
            away = away or world.place_for(other, avoid=[host], before=then)
            if away is None:
                findings.append(_no_host(other, why))
                break
            units.append(_place(world.view, other, away, PINNED, why))
            world.go(other, away)
        else:
            why = f"wanted on {host}, it is on {world.at[pid]}"
            units.append(_place(world.view, pid, host, PINNED, why))
            world.go(pid, host)
    return units


def _missing(world: _World, active: str, number: int, findings: list[Finding]) -> list[Unit]:
    units: list[Unit] = []
    has = len(world.standbys(active))
    if has < number and not capabilities(world.view.coordinator).has_own_requests:
        findings.append(
            Finding(
                active,
                f"{has} standbys, {number} are wanted; Samza's AM has no standby on request",
                "deploy the job with its replication factor again",
            )
        )
        return units
    for one in range(has, number):
        host = world.place_for(one_more_of(active))
        if host is None:
            findings.append(_no_host(active, f"{one} standbys, {number} are wanted"))
            break
        step = UnitStep(f"spin_up_{one}", Kind.START_STANDBY, active, host)
        why = f"{one} standbys, {number} are wanted"
        units.append(Unit.of(world.view, active, MISSING, why, step))
        world.go(f"{one_more_of(active)}-{one}", host)
    return units


def _together(world: _World, active: str) -> list[Finding]:
    """Standbys in the fault domain of another of the group, as they are after the steps."""
    from samza_dagster.placement.rules import SAME_DOMAIN  # late: it would delay each run's start

    return [
        Finding(standby, broken.seen, f"relocate_standby {standby}: {broken.change}")
        for standby in world.standbys(active)
        if (broken := world.placing.violation(standby, world.at[standby])) is not None
        and broken.rule == SAME_DOMAIN
    ]


def _place(view: JobView, processor_id: str, host: str, what: str, why: str) -> Unit:
    step = UnitStep(f"place_on_{host}", Kind.PLACE, processor_id, host)
    if view.is_standby(processor_id):
        return Unit.of(view, processor_id, what, why, *standby_placed(view, step))
    verified = UnitStep("processes", Kind.WAIT_PROCESSING, processor_id)
    return Unit.of(view, processor_id, what, why, step, verified)


def _check_pins(view: JobView, pins: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    """Raises `Refused` for a pin that can't hold: unknown, lost, of another one of its group there
    or in the same fault domain, or for a standby outside `allowed`, unless that is empty."""
    taken: dict[tuple[str, str], str] = {}
    for pid, host in sorted(pins.items()):
        seen = ""
        if pid not in view.processors:
            seen = f"no processor {pid}; there are {', '.join(sorted(view.processors))}"
        elif host not in view.hosts:
            seen = f"no host {host}; there are {', '.join(sorted(view.hosts))}"
        elif view.hosts[host].state == move.LOST:
            seen = f"{host} is lost"
        elif view.is_standby(pid) and allowed and host not in allowed:
            seen = f"{host} isn't among the component's hosts ({', '.join(allowed)})"
        elif (other := taken.setdefault((view.group_of(pid), host), pid)) != pid:
            seen = f"{other} of the same group is wanted there too"
        elif (other := _near(view, pid, host, pins)) is not None:
            seen = f"{other} of the same group is wanted in its fault domain"
        if seen:
            raise Refused(f"reconcile: {pid} on {host}", seen=seen, fix="another pin, or none")


def _near(view: JobView, processor_id: str, host: str, pins: Mapping[str, str]) -> str | None:
    """Who of the group is pinned to another host of this host's fault domain."""
    domain = view.hosts[host].fault_domain
    for other, there in sorted(pins.items()):
        same_group = other != processor_id and view.group_of(other) == view.group_of(processor_id)
        known = view.hosts.get(there)
        if same_group and domain and known is not None and known.fault_domain == domain:
            return other
    return None
