"""The places of an active's standbys: which of them it may take, and why not the others.

A standby's place is the host with its state: where it runs, or where it ran last and starts
again, stops, or is down. Reads alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samza_dagster.lag import soonness
from samza_dagster.placement import rules
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import (
    Fallback,
    Group,
    Host,
    Move,
    Phase,
    Processor,
    Restart,
    Role,
    Stage,
    Start,
    Swap,
    subject_of,
)

STANDBY_RUNS = "standby-runs"
START_FAILED = "start-failed"
ONE_ACTION = "one-action"

_ORDER = (Phase.RUNNING, Phase.STARTING, Phase.STOPPING)
TAKEN_FROM = (Move, Restart, Start)
"""A failover may take the standby of an action of these kinds; the action fails."""


def warm_host(standby: Processor) -> str | None:
    """Return the host that has a standby's state; None when no such host is known."""
    # A standby that starts on another host than its last has little there, and its old store ages.
    incarnation = standby.incarnation
    if incarnation is None:
        return standby.last_seen_host
    if standby.phase is Phase.RUNNING or incarnation.host == standby.last_seen_host:
        return incarnation.host
    return None


def place_of(standby: Processor) -> str:
    """Return the host of a standby's process, else its last host; "" for none."""
    if standby.incarnation is not None:
        return standby.incarnation.host
    return standby.last_seen_host or ""


def ranked(step: GroupStep, active_id: str) -> list[str]:
    """Return the standbys with a place that the active may take, the best first.

    Running standbys come first, the soonest ready before the others. Those that start, stop or
    are down follow only for an active that has failed in this deployment; before that, all are on
    their way. Within each kind, places in another member's fault domain come last.
    """
    group, hosts = step.group, step.hosts
    active = group.processors[active_id]
    fit: dict[str, tuple[int, bool]] = {}
    for standby in group.processors.values():
        if standby.role is not Role.STANDBY or _unfit(group, hosts, active, standby) is not None:
            continue
        failed = standby.phase is Phase.RUNNING or bool(active.failed_at_ms)
        if not failed or (standby.incarnation is None and not step.limits.host_affinity):
            continue
        phase = standby.phase
        kind = _ORDER.index(phase) if phase in _ORDER else len(_ORDER)
        host = warm_host(standby) or ""
        crowded = rules.violation(_without(group, standby), hosts, active_id, host) is not None
        fit[standby.processor_id] = (kind, crowded)
    return sorted(fit, key=lambda pid: (fit[pid], _soonness(step, pid), pid))


def ready(step: GroupStep, active_id: str) -> list[str]:
    """Return the running ones of `ranked`, which an action may ask for."""
    best = ranked(step, active_id)
    return [pid for pid in best if step.processor(pid).phase is Phase.RUNNING]


def violation(
    group: Group, hosts: Mapping[str, Host], active: Processor, standby: Processor
) -> Violation | None:
    """Return why an action may not put the active in this standby's place; None when it may."""
    if standby.phase is not Phase.RUNNING:
        standby_id, host = standby.processor_id, place_of(standby)
        seen = f"{standby_id} is {standby.phase}"
        return Violation(
            STANDBY_RUNS,
            host,
            f"{standby_id} on {host} is {standby.phase}" if host else seen,
            f"wait until {standby_id} runs",
        )
    return _unfit(group, hosts, active, standby)


def refusals(group: Group, hosts: Mapping[str, Host], active_id: str) -> Iterator[Violation]:
    """Yield why the active may not take the place of each standby."""
    active = group.processors[active_id]
    for standby in group.processors.values():
        if standby.role is Role.STANDBY:
            broken = violation(group, hosts, active, standby)
            if broken is not None:
                yield broken


def _unfit(
    group: Group, hosts: Mapping[str, Host], active: Processor, standby: Processor
) -> Violation | None:
    standby_id, host = standby.processor_id, warm_host(standby)
    runs = standby.phase is Phase.RUNNING
    if host is None or (not runs and (host in standby.avoid_hosts or not standby.wanted)):
        return Violation(
            STANDBY_RUNS,
            host or "",
            f"{standby_id} is {standby.phase}, and no host is known to have its state",
            f"wait until {standby_id} runs",
        )
    if host in active.avoid_hosts:
        return Violation(
            START_FAILED,
            host,
            f"{standby_id} on {host}: {active.processor_id} failed to start there since it ran last",
            f"wait until {active.processor_id} runs",
        )
    busy = _busy(group, standby)
    if busy is not None:
        change = f"wait until {standby_id} is free of it"
        return Violation(ONE_ACTION, host, f"{standby_id} on {host}: {busy}", change)
    broken = rules.violation(_without(group, standby), hosts, active.processor_id, host)
    # Other members in the standby's fault domain share it already, while the standby is there.
    if broken is not None and broken.rule == rules.SAME_DOMAIN and standby.incarnation is not None:
        return rules.lost_violation(hosts, host)
    return broken


def _busy(group: Group, standby: Processor) -> str | None:
    """Return the action that keeps the standby from a failover, as text; None without one."""
    action, standby_id = group.action, standby.processor_id
    if action is None or isinstance(action, Fallback):
        return None
    place = action.place if isinstance(action, (Swap, Move)) else None
    before_the_stop = action.stage is not Stage.STOPPING
    if before_the_stop and place is not None and place.standby_id == standby_id:
        return f"action {action.ask.uuid} takes its place"
    if subject_of(action) != standby_id or isinstance(action, TAKEN_FROM):
        return None
    return f"action {action.ask.uuid} is about it"


def _soonness(step: GroupStep, standby_id: str) -> tuple[bool, int, bool, int]:
    lag = step.lag(standby_id)
    if lag is None:
        return soonness(None, None, 0)
    return soonness(lag.records, lag.ready_in_ms, step.now_ms - lag.at_ms, lag.good_for_ms)


def _without(group: Group, standby: Processor) -> Group:
    others = {pid: p for pid, p in group.processors.items() if pid != standby.processor_id}
    return group.evolve(processors=others)
