"""How a host is emptied: the steps for each container on it, their destinations and order. Pure.

All destinations are chosen together and by name. So no request leaves another container without a legal
host, and none chooses the drained host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from samza_dagster.client import JobView, ProcessorView
from samza_dagster.client.legal_hosts import Placing
from samza_dagster.errors import Refused, some_of
from samza_dagster.model.naming import one_more_of
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.plans.conditions import Reported, behind
from samza_dagster.orchestration.plans.decisions import require_known_lag
from samza_dagster.orchestration.plans.move import (
    LAST_SEEN_STATE,
    LOST,
    RUNNING,
    knows_domains,
    require_named_hosts,
)
from samza_dagster.orchestration.plans.units import NEW, Kind, Unit, UnitStep, standby_placed

RELOCATE, SWAP, MOVE, VIA_NEW = "relocate", "swap", "move", "via-new-standby"
_ORDER = (RELOCATE, SWAP, MOVE, VIA_NEW)


@dataclass(frozen=True)
class DrainRules:
    """The rules of a drain. `allowed`, unless empty, are the only destinations.

    `named` are the hosts in the drain's config; each must be a host of the cluster. `standby_hosts`,
    unless empty, are the only ones of them for standbys. `cold`: an active without a warm standby moves
    without one and restores; otherwise a standby is spun up for it first. `drained` maps hosts to the
    runs that drain them meanwhile; they are no destinations.
    """

    allowed: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    standby_hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    cold: bool = False
    drained: Mapping[str, str] = field(default_factory=dict[str, str])

    def takes_standbys(self, host: str) -> bool:
        """Return whether a standby may go to the host."""
        return not self.standby_hosts or host in self.standby_hosts


def drain_units(
    view: JobView, host: str, reported: Reported, warm: CatchUp, rules: DrainRules
) -> list[Unit]:
    """Return a unit for each container on the host, in the order in which they begin.

    Standbys leave first, then actives whose standby is warm, then those without state, then those for which
    a standby is spun up. `warm` says when a standby is. Raises `Refused` for a host that is unknown or
    lost, and for a name that is no host. Raises it also when a container's changelog is lost, and when one
    would have no legal host, with what is missing.
    """
    _require_alive(view, host)
    _require_known(view, host, rules)
    require_named_hosts(view, f"drain_host {host}")
    leaving = [p for _, p in sorted(view.processors.items()) if p.host == host]
    unready = [p for p in leaving if p.state not in (RUNNING, LAST_SEEN_STATE)]
    if unready:
        raise Refused(
            f"drain_host {host}: its containers run",
            seen=", ".join(f"{p.processor_id} is {p.state}" for p in unready),
            fix="wait until they run or are gone; samza-dagster status shows why not",
        )
    lost = [
        f"{p.processor_id}: {reported.lost[p.processor_id]}"
        for p in leaving
        if p.processor_id in reported.lost
    ]
    if lost:
        raise Refused(
            f"drain_host {host}: what leaves can restore its state from its changelog",
            seen=some_of(lost, "; "),
            fix="bring the records of that topic back; or place a container by hand, which then starts with"
            " what its changelog has",
        )
    placing = Placing(view)
    how = {p.processor_id: _how(view, placing, p, host, reported, warm, rules) for p in leaving}
    where = _destinations(view, placing, host, how, rules)
    units = [_unit(view, p, how[p.processor_id], where[p.processor_id], host) for p in leaving]
    return sorted(units, key=lambda unit: (_ORDER.index(unit.what), unit.processor))


def still_on(view: JobView, host: str) -> list[str]:
    """Containers of the job that are on the host."""
    return sorted(p.processor_id for p in view.processors.values() if p.host == host)


@dataclass(frozen=True)
class _How:
    what: str
    why: str
    standby: ProcessorView | None = None


def _how(
    view: JobView,
    placing: Placing,
    processor: ProcessorView,
    host: str,
    reported: Reported,
    bounds: CatchUp,
    rules: DrainRules,
) -> _How:
    pid = processor.processor_id
    if view.is_standby(pid):
        return _How(RELOCATE, "a standby: its active runs on elsewhere meanwhile")
    standbys = [
        p
        for _, p in sorted(view.processors.items())
        if view.group_of(p.processor_id) == pid and view.is_standby(p.processor_id)
    ]
    warm = [
        p
        for p in standbys
        if p.host not in (None, host)
        and p.state in (RUNNING, LAST_SEEN_STATE)
        and not _is_gone(view, str(p.host))
        and reported.is_warm(p.processor_id, bounds)
        and _is_allowed(str(p.host), rules)
        and placing.violation(pid, str(p.host), in_place_of=p.processor_id) is None
    ]
    if warm and (not rules.cold or _has_next_place(view, placing, pid, host, rules)):
        best = min(warm, key=lambda p: (reported.lags.get(p.processor_id) or 0, p.processor_id))
        lag = reported.lags[best.processor_id]
        return _How(SWAP, f"standby {best.processor_id} is warm: {lag:,} records behind", best)
    if pid not in reported.lags:
        return _How(MOVE, "it has no state to restore")
    lags = ", ".join(
        f"{p.processor_id} {behind(reported.lags.get(p.processor_id))}{_no_use(view, p.host, rules)}"
        for p in standbys
    )
    seen = f"its standbys: {lags}" if lags else "it has no standby"
    if warm:
        seen += ", with no legal host to give way to"
    if rules.cold:
        return _How(MOVE, f"{seen}; it restores its state at its destination (cold)")
    if not view.capabilities.has_own_requests:
        raise Refused(
            f"drain_host {host}: a warm standby of {pid} elsewhere",
            seen=f"{seen}; Samza's AM has no standby on request",
            fix="wait until a standby is warm, or cold: true, which moves it and restores there",
        )
    require_known_lag(
        view, f"drain_host {host}", "or cold: true, which moves it and restores there"
    )
    most = view.max_standbys
    if most is not None and len(standbys) >= most:
        raise Refused(
            f"drain_host {host}: one more standby of {pid}, at most {most} are allowed",
            seen=seen,
            fix=f"wait until {standbys[0].processor_id} is warm, stop a standby first, or cold: true",
        )
    return _How(VIA_NEW, f"{seen}: one is spun up for the move")


def _has_next_place(
    view: JobView, placing: Placing, active: str, drained: str, rules: DrainRules
) -> bool:
    """Return whether a standby that gives way has any legal host to go to, with room or without."""
    forbidden = {drained, *placing.forbidden(one_more_of(active))}
    return any(
        name not in forbidden and _is_allowed(name, rules) and rules.takes_standbys(name)
        for name in view.hosts
    )


def _is_gone(view: JobView, host: str) -> bool:
    """Lost, or no longer among the hosts of the job."""
    known = view.hosts.get(host)
    return known is None or known.state == LOST


def _no_use(view: JobView, host: str | None, rules: DrainRules) -> str:
    """Why a standby is no use, though it is warm."""
    if host is None:
        return ""
    if _is_gone(view, host):
        return f" on {host}, which is gone"
    run = rules.drained.get(host)
    return f" on {host}, which run {run} drains" if run else ""


def _unit(view: JobView, processor: ProcessorView, how: _How, to: str, host: str) -> Unit:
    pid = processor.processor_id
    if how.what == RELOCATE:
        placed = standby_placed(view, UnitStep("move", Kind.PLACE, pid, to))
        return Unit.of(view, pid, how.what, how.why, *placed)
    place, before = to, tuple[UnitStep, ...]()
    if how.what == SWAP and how.standby is not None:
        standby, place = how.standby.processor_id, str(how.standby.host)
        before = (
            UnitStep("warm", Kind.WAIT_WARM, standby),
            *standby_placed(view, UnitStep("away", Kind.PLACE, standby, to)),
        )
    elif how.what == VIA_NEW:
        before = (
            UnitStep("spin_up", Kind.START_STANDBY, pid, to),
            UnitStep("warm", Kind.WAIT_WARM, NEW),
            UnitStep("gives_place", Kind.STOP_STANDBY, NEW),
        )
    move = UnitStep("move", Kind.PLACE, pid, place)
    verified = UnitStep("processes", Kind.WAIT_PROCESSING, pid)
    return Unit.of(view, pid, how.what, how.why, *before, move, verified)


def _destinations(
    view: JobView, placing: Placing, host: str, how: Mapping[str, _How], rules: DrainRules
) -> dict[str, str]:
    """Return a host for each container's new slot, for all together; raises `Refused` with what is missing.

    Uses augmenting paths: a container with a choice makes room for one without.
    """
    room = _room(view, host)
    why_not: dict[str, str] = {}
    options: dict[str, list[str]] = {}
    for pid in how:
        reasons: list[str] = []
        options[pid] = []
        for name in sorted(view.hosts):
            reason = _why_not(view, name, host, rules)
            if reason is None and how[pid].what != MOVE and not rules.takes_standbys(name):
                reason = f"{name} isn't among the component's hosts, the only ones for standbys"
            # A standby beside all of its group before the active moves, and after it.
            beside_all = how[pid].what in (SWAP, VIA_NEW)
            if reason is None and (
                broken := placing.violation(one_more_of(pid) if beside_all else pid, name)
            ):
                reason = broken.seen
            if reason is None and room[name] == 0:
                reason = f"{name} has no room: {view.hosts[name].free_memory_mb} MiB free"
            if reason is None:
                options[pid].append(name)
            else:
                reasons.append(reason)
        why_not[pid] = "; ".join(reasons) or "no other host"
    taken: dict[str, list[str]] = {name: [] for name in view.hosts}

    def seat(pid: str, tried: set[str]) -> bool:
        for name in sorted(options[pid], key=lambda n: (len(taken[n]) - (room[n] or 0), n)):
            if name in tried:
                continue
            tried.add(name)
            limit = room[name]
            if limit is None or len(taken[name]) < limit:
                taken[name].append(pid)
                return True
            for other in list(taken[name]):
                taken[name].remove(other)
                if seat(other, tried):
                    taken[name].append(pid)
                    return True
                taken[name].append(other)
        return False

    unseated = [
        pid for pid in sorted(how, key=lambda p: (len(options[p]), p)) if not seat(pid, set())
    ]
    if unseated:
        needed = view.container_memory_mb
        each = "" if needed is None else f" with {needed:,} MiB free"
        raise Refused(
            f"drain_host {host}: a legal host for each of {len(how)} containers",
            seen="; ".join(
                f"{pid} ({how[pid].what}): "
                + (
                    f"{', '.join(options[pid])} would be full{_being_drained(rules)}"
                    if options[pid]
                    else why_not[pid]
                )
                for pid in unseated
            ),
            fix=f"room for {len(unseated)} more on a host that is alive{each} and has no container"
            f" of group {', '.join(sorted({view.group_of(pid) for pid in unseated}))}"
            + (", nor one in its fault domain" if knows_domains(view) else "")
            + (
                "; or cold: true"
                if _would_go_cold(view, placing, host, how, unseated, rules)
                else ""
            ),
        )
    return {pid: name for name, pids in taken.items() for pid in pids}


def _would_go_cold(
    view: JobView,
    placing: Placing,
    drained: str,
    how: Mapping[str, _How],
    unseated: Collection[str],
    rules: DrainRules,
) -> bool:
    """Return whether a cold drain would move as they are those that have no place by way of a standby."""

    def may_move(pid: str) -> bool:
        legal = set(view.hosts) - placing.forbidden(pid) - {drained}
        return any(_is_allowed(name, rules) for name in legal)

    by_standby = {pid for pid in unseated if how[pid].what in (SWAP, VIA_NEW)}
    return not rules.cold and all(
        pid in by_standby
        and may_move(pid)
        and (how[pid].what == VIA_NEW or not _has_next_place(view, placing, pid, drained, rules))
        for pid in unseated
    )


def _room(view: JobView, drained: str) -> dict[str, int | None]:
    """How many containers more fit on each host; None when that isn't known."""
    needed = view.container_memory_mb
    room: dict[str, int | None] = {}
    for name, known in view.hosts.items():
        free = known.free_memory_mb
        room[name] = None if free is None or not needed else max(0, free) // needed
    room[drained] = 0
    return room


def _why_not(view: JobView, name: str, drained: str, rules: DrainRules) -> str | None:
    if name == drained:
        return f"{name} is being drained"
    if view.hosts[name].state == LOST:
        return f"{name} is lost"
    if name in rules.drained:
        return f"{name} is being drained by run {rules.drained[name]}"
    if not _is_allowed(name, rules):
        return f"{name} isn't among the hosts to go to"
    return None


def _being_drained(rules: DrainRules) -> str:
    """Hosts that would have had room."""
    drained = sorted(rules.drained.items())
    return "".join(f", {name} is being drained by run {run}" for name, run in drained)


def _is_allowed(name: str, rules: DrainRules) -> bool:
    is_barred = name in rules.excluded or name in rules.drained
    return (not rules.allowed or name in rules.allowed) and not is_barred


def _require_known(view: JobView, host: str, rules: DrainRules) -> None:
    """A name that is mistyped would be no destination, or bar none."""
    unknown = sorted({*rules.named} - view.hosts.keys())
    if unknown:
        raise Refused(
            f"drain_host {host}: destinations and exclude name hosts of the job",
            seen=f"{', '.join(unknown)}; there are {some_of(sorted(view.hosts))}",
            fix="names of these",
        )


def _require_alive(view: JobView, host: str) -> None:
    known = view.hosts.get(host)
    if known is None:
        raise Refused(
            f"drain_host {host}: a host of the job",
            seen=f"hosts {', '.join(sorted(view.hosts)) or 'none'}",
            fix="one of these names",
        )
    if known.state == LOST:
        there = ", ".join(f"{pid} is {view.processors[pid].state}" for pid in still_on(view, host))
        raise Refused(
            f"drain_host {host}: a host whose agent answers",
            seen=f"{host} is lost; {there or 'no container of the job is on it'}",
            fix="nothing is left to drain: the coordinator starts what was on it elsewhere by itself,"
            " an active in the place of its standby, as soon as the lost ones can own nothing any more",
        )
