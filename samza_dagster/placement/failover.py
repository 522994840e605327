"""Failover: an active takes the place of the standby soonest ready, which gives way.

In one step the standby's locality is removed and the active's set, the standby is
stopped and its host requested for the active. The active starts there once the
resource is held, the standby was seen dead, and nothing of its own past may still own
its tasks. The standby then goes anywhere legal. (Hot standby SEP, 3A; the SEP takes the
first standby found, here it is the one soonest ready.)
"""

from __future__ import annotations

from samza_dagster.placement import containers, failures, ownership, responses, rules, texts
from samza_dagster.placement.commands import (
    CountMetric,
    DeleteLocality,
    ReleaseResource,
    WriteLocality,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Failover, Group, Phase, Processor, Role
from samza_dagster.readiness.choice import Candidate, soonest_ready

ACTIVE_FIRST_MS = 4_000
"""A standby that gave way starts this much later: until then its active restores and starts."""


def recover(draft: Draft, group_id: str, processor_id: str, why: str) -> None:
    """A processor that ran has no process any more: begins its way back.

    The same host first, then (an active) a standby's, then any. One that fails again
    and again pauses first.
    """
    processor = draft.processor(group_id, processor_id)
    pause = failures.pause_ms(processor, draft.now_ms, draft.limits)
    if pause > 0:
        containers.wait(draft, group_id, processor_id, not_before_ms=draft.now_ms + pause)
        return
    go(draft, group_id, processor_id, containers.preferred_host(draft, processor), why)


def go(
    draft: Draft, group_id: str, processor_id: str, preferred: str | None, why: str = ""
) -> None:
    """Requests `preferred` when it is legal now; else the next rung.

    Room there is waited for only if no standby could take over at once.
    """
    group = draft.group(group_id)
    if preferred is None or rules.violation(group, draft.hosts, processor_id, preferred):
        illegal = "no host was preferred" if preferred is None else f"{preferred} was not legal"
        next_rung(draft, group_id, processor_id, why or illegal)
        return
    urgent = draft.processor(group_id, processor_id).role is Role.ACTIVE and bool(
        candidates(draft, group, processor_id)
    )
    containers.request_host(draft, group_id, processor_id, preferred, urgent=urgent)


def next_rung(
    draft: Draft, group_id: str, processor_id: str, why: str, tried: tuple[str, ...] = ()
) -> None:
    """The host that was asked for by name isn't to be had: a standby's host, else any."""
    processor = draft.processor(group_id, processor_id)
    # One that never ran has no state that a standby could have followed.
    if processor.role is Role.ACTIVE and processor.last_seen_host is not None:
        if begin(draft, group_id, processor_id, why, tried):
            return
        if any(p.role is Role.STANDBY for p in draft.group(group_id).processors.values()):
            draft.emit(CountMetric("failovers-to-any-host"))
    containers.request_any(draft, group_id, processor_id)


def begin(
    draft: Draft, group_id: str, active_id: str, why: str, tried: tuple[str, ...] = ()
) -> bool:
    """Begins a failover of an active that has no process; False when no standby qualifies."""
    ranked = [
        pid for pid in candidates(draft, draft.group(group_id), active_id) if pid not in tried
    ]
    if not ranked:
        return False
    standby_id = ranked[0]
    group = draft.group(group_id)
    action = group.action
    if action is not None and ownership.acts_on(action, standby_id, *ownership.REVOCABLE):
        _take_from(draft, group_id, active_id)
    standby = draft.processor(group_id, standby_id)
    assert standby.incarnation is not None
    host = standby.incarnation.host
    draft.put_failover(
        group_id,
        Failover(active_id, standby_id, host, draft.now_ms, why, (*tried, standby_id)),
    )
    draft.put_processor(group_id, standby.evolve(last_seen_host=None))
    draft.emit(
        DeleteLocality(standby_id),
        WriteLocality(active_id, host),
        CountMetric("failovers-to-standby"),
    )
    containers.stop(draft, group_id, standby_id)
    containers.request_host(draft, group_id, active_id, host)
    return True


def candidates(draft: Draft, group: Group, active_id: str) -> list[str]:
    """Standbys that run on hosts where the active may be, the one soonest ready first."""
    active = group.processors[active_id]
    fit: list[Candidate] = []
    for standby in group.processors.values():
        if not _qualifies(draft, group, active, standby):
            continue
        lag = draft.lags.get(standby.processor_id)
        fit.append(
            Candidate(standby.processor_id)
            if lag is None
            else Candidate(lag.processor_id, lag.records, lag.ready_in_ms, lag.at_ms)
        )
    return [candidate.processor_id for candidate in soonest_ready(fit, draft.now_ms)]


def abandon(draft: Draft, group_id: str, why: str) -> None:
    """The standby's place isn't to be had: the next one's, else any host."""
    failover = draft.group(group_id).failover
    assert failover is not None
    draft.put_failover(group_id, None)
    active = draft.processor(group_id, failover.active_id)
    if active.request is not None:
        draft.emit(ReleaseResource(active.request.request_id))
        draft.put_processor(group_id, active.evolve(request=None))
    next_rung(draft, group_id, failover.active_id, why, failover.tried)


def waits_for(group: Group, standby: Processor) -> bool:
    """Whether a failover can't go on before this process of the standby is dead."""
    failing_over = group.failover
    if failing_over is None or failing_over.standby_id != standby.processor_id:
        return False
    gives_way = standby.incarnation is not None and standby.incarnation.host == failing_over.host
    active = group.processors.get(failing_over.active_id)
    return gives_way and active is not None and active.incarnation is None


def call_off(draft: Draft, group_id: str) -> None:
    """The active runs where it was: its standby may have its place again."""
    failover = draft.group(group_id).failover
    if failover is None:
        return
    draft.put_failover(group_id, None)
    standby = draft.group(group_id).processors.get(failover.standby_id)
    if standby is not None and standby.last_seen_host is None:
        draft.put_processor(group_id, standby.evolve(last_seen_host=failover.host))


def _qualifies(draft: Draft, group: Group, active: Processor, standby: Processor) -> bool:
    if standby.role is not Role.STANDBY or standby.phase is not Phase.RUNNING:
        return False
    incarnation = standby.incarnation
    if incarnation is None or incarnation.host in active.avoid_hosts:
        return False
    known = draft.hosts.get(incarnation.host)
    if known is not None and not known.alive:
        return False
    if ownership.displacing(group, standby.processor_id, *ownership.REVOCABLE) is not None:
        return False
    others = group.evolve(
        processors={pid: p for pid, p in group.processors.items() if pid != standby.processor_id},
    )
    return (
        rules.violation(others, draft.hosts, active.processor_id, incarnation.host) is None
        and draft.group(group.group_id).failover is None
    )


def _take_from(draft: Draft, group_id: str, active_id: str) -> None:
    """An action that only reserves for this standby gives it up."""
    action = draft.group(group_id).action
    assert action is not None
    responses.fail(draft, group_id, action, texts.standby_needed(active_id))
    responses.give_back(draft, action)
    draft.put_action(group_id, None)
