"""Failover: an active takes the place of the standby that is soonest ready.

One step removes the standby's locality, sets the active's, stops the standby and requests its
host for the active. The active starts there once the resource is held, the standby was seen dead,
and no earlier incarnation of the active may own its tasks. The standby then goes to any legal
host. A standby that doesn't run has a place too: the host that has its state. (Hot standby SEP,
3A; the SEP takes the first standby found, we take the one soonest ready.)
"""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import containers, failures, ownership, places, responses, rules, texts
from samza_dagster.placement.commands import (
    CountMetric,
    DeleteLocality,
    ReleaseResource,
    WriteLocality,
)
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    Failover,
    Group,
    Phase,
    Processor,
    Role,
    subject_of,
)

ACTIVE_FIRST_MS = 4_000
"""Delay of the displaced standby's start, in which its active restores and starts."""


def recover(step: GroupStep, processor_id: str, why: str) -> None:
    """Begin the recovery of a processor that ran and has no process any more.

    The order is the same host, then (for an active) a standby's host, then any. Repeated failures
    pause first.
    """
    processor = step.processor(processor_id)
    pause = failures.pause_ms(step, processor)
    if pause > 0:
        containers.wait(step, processor_id, not_before_ms=step.now_ms + pause)
        return
    request_preferred(step, processor_id, containers.preferred_host(step, processor), why)


def request_preferred(
    step: GroupStep, processor_id: str, preferred: str | None, why: str = ""
) -> None:
    """Request `preferred` when it is legal now; else try the next fallback."""
    # It waits for room there only if no standby could take over at once.
    if preferred is None or rules.violation(step.group, step.hosts, processor_id, preferred):
        illegal = "no host was preferred" if preferred is None else f"{preferred} was not legal"
        next_fallback(step, processor_id, why or illegal)
        return
    active = step.processor(processor_id).role is Role.ACTIVE
    urgent = active and bool(candidates(step, processor_id))
    containers.request_host(step, processor_id, preferred, urgent=urgent)


def next_fallback(
    step: GroupStep, processor_id: str, why: str, tried: tuple[str, ...] = ()
) -> None:
    """Try a standby's host, else any, because the named host isn't available."""
    processor = step.processor(processor_id)
    # An active that never ran has no state that a standby could have followed.
    if processor.role is Role.ACTIVE and processor.last_seen_host is not None:
        if begin(step, processor_id, why, tried):
            return
        has_standbys = any(p.role is Role.STANDBY for p in step.group.processors.values())
        if has_standbys and processor.unplaced:
            step.emit(CountMetric("failovers-to-any-host"))
            step.change(processor_id, unplaced=False)
    containers.request_any(step, processor_id)


def begin(step: GroupStep, active_id: str, why: str, tried: tuple[str, ...] = ()) -> bool:
    """Begin a failover of an active without a process; return False when no place is fit."""
    ranked = places.ranked(step, active_id)
    standby_id = next((pid for pid in ranked if pid not in tried), None)
    if step.group.failover is not None or standby_id is None:
        return False
    _take_from_its_action(step, active_id, standby_id)
    standby = step.processor(standby_id)
    host = places.warm_host(standby)
    assert host is not None
    why += _what_is_known(step, standby)
    tried = (*tried, standby_id)
    step.put_failover(Failover(active_id, standby_id, host, step.now_ms, why, tried))
    containers.drop_request(step, standby_id)
    step.change(standby_id, last_seen_host=None)
    step.emit(
        DeleteLocality(standby_id),
        WriteLocality(active_id, host),
        CountMetric("failovers-to-standby"),
    )
    sought = step.processor(active_id).sought
    if standby_id not in sought:
        step.change(active_id, sought=(*sought, standby_id))
    if standby.phase in (Phase.STARTING, Phase.RUNNING):
        containers.stop(step, standby_id)
        start = ownership.starting_action(step.group, active_id)
        if start is not None:
            step.put_action(start.evolve(stopped=(*start.stopped, standby_id)))
    # Without a process of the standby, another container may hold the room: don't wait for it.
    containers.request_host(step, active_id, host, urgent=standby.incarnation is None)
    return True


def look_again(step: GroupStep) -> None:
    """Redirect an active that would start without state to a standby that is ready by now.

    This applies until the active starts: its request is open, or its reserved start waits for a
    fence or the end of a lease. A place that was sought since the active ran isn't sought again.
    """
    for active_id, active in step.group.processors.items():
        request = active.request
        if request is None or request.host is not None or active.role is not Role.ACTIVE:
            continue
        if step.group.failover is not None or active.last_seen_host is None:
            return
        start = ownership.starting_action(step.group, active_id)
        if start is not None and start.ask.kind is not RequestKind.FAIL_OVER:
            return
        tried = active.sought
        if any(pid not in tried for pid in candidates(step, active_id)):
            step.emit(ReleaseResource(request.request_id))
            step.change(active_id, request=None)
            begin(step, active_id, f"it was ready before {active_id} started", tried)
        return


def candidates(step: GroupStep, active_id: str) -> list[str]:
    """Return the running standbys on legal hosts for the active, the soonest ready first."""
    return [] if step.group.failover is not None else places.ready(step, active_id)


def abandon(step: GroupStep, why: str) -> None:
    """Give this standby's place up: try the next standby's, else any host."""
    failover = step.group.failover
    assert failover is not None
    active_id = failover.active_id
    step.put_failover(None)
    request = step.processor(active_id).request
    if request is not None:
        step.emit(ReleaseResource(request.request_id))
        step.change(active_id, request=None)
    next_fallback(step, active_id, why, failover.tried)
    start = ownership.starting_action(step.group, active_id)
    if start is None or start.ask.kind is not RequestKind.FAIL_OVER or step.group.failover:
        return
    message = f"{texts.NO_PLACE} the place of {failover.standby_id}: {why}"
    responses.progress(step, start, message)


def is_awaiting(group: Group, standby: Processor) -> bool:
    """Return whether a failover waits for the death of this standby's process."""
    failing_over = group.failover
    if failing_over is None or failing_over.standby_id != standby.processor_id:
        return False
    gives_way = standby.incarnation is not None and standby.incarnation.host == failing_over.host
    active = group.processors.get(failing_over.active_id)
    return gives_way and active is not None and active.incarnation is None


def call_off(step: GroupStep) -> None:
    """End a failover because the active runs where it was; its standby may have its place again."""
    failover = step.group.failover
    assert failover is not None
    step.put_failover(None)
    standby = step.group.processors.get(failover.standby_id)
    if standby is not None and standby.last_seen_host is None:
        step.change(failover.standby_id, last_seen_host=failover.host)


def _what_is_known(step: GroupStep, standby: Processor) -> str:
    """Return the phase and the lag of a standby that doesn't run; "" for one that runs."""
    if standby.phase is Phase.RUNNING:
        return ""
    lag = step.lag(standby.processor_id)
    behind = texts.how_far_behind(None if lag is None else lag.records)
    return f"; it was {standby.phase}, {behind}"


def _take_from_its_action(step: GroupStep, active_id: str, standby_id: str) -> None:
    """Give up an action that moves this standby: the active comes first."""
    action = step.action
    if not isinstance(action, places.TAKEN_FROM) or subject_of(action) != standby_id:
        return
    why = f"the standby is needed: active container {active_id} fails over to its host"
    responses.fail(step, action, texts.failed(why))
    responses.give_back(step, action)
