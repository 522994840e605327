"""Failover: an active takes the place of the standby soonest ready, which gives way.

In one step the standby's locality is removed and the active's set, the standby is
stopped and its host requested for the active. The active starts there once the
resource is held, the standby was seen dead, and nothing of its own past may still own
its tasks. The standby then goes anywhere legal. A standby that doesn't run has a place
too: where its state is. (Hot standby SEP, 3A; the SEP takes the
first standby found, here it is the one soonest ready.)
"""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    containers,
    failures,
    ownership,
    places,
    responses,
    rules,
    texts,
)
from samza_dagster.placement.commands import (
    CountMetric,
    DeleteLocality,
    ReleaseResource,
    WriteLocality,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Failover, Group, Phase, Processor, Role, Stage

ACTIVE_FIRST_MS = 4_000
"""A standby that gave way starts this much later: until then its active restores and starts."""
_TAKEN_FROM = (*ownership.REVOCABLE, Stage.STOPPING, Stage.STARTING)
"""An action that moves the standby is given up in these stages: the active comes first."""


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
    """Requests `preferred` when it is legal now; else the next fallback.

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
        has_standbys = any(
            p.role is Role.STANDBY for p in draft.group(group_id).processors.values()
        )
        if has_standbys and processor.unplaced:
            draft.emit(CountMetric("failovers-to-any-host"))
            draft.put_processor(group_id, processor.evolve(unplaced=False))
    containers.request_any(draft, group_id, processor_id)


def begin(
    draft: Draft, group_id: str, active_id: str, why: str, tried: tuple[str, ...] = ()
) -> bool:
    """Begins a failover of an active that has no process; False when no standby's place is fit."""
    group = draft.group(group_id)
    ranked = places.ranked(group, _seen(draft), active_id)
    standby_id = next((pid for pid in ranked if pid not in tried), None)
    if standby_id is None:
        return False
    action = group.action
    if action is not None and ownership.acts_on(action, standby_id, *_TAKEN_FROM):
        _take_from(draft, group_id, active_id)
    standby = draft.processor(group_id, standby_id)
    host = places.warm_host(standby)
    assert host is not None
    draft.put_failover(
        group_id,
        Failover(
            active_id,
            standby_id,
            host,
            draft.now_ms,
            why + _what_is_known(draft, standby),
            (*tried, standby_id),
        ),
    )
    containers.drop_request(draft, group_id, standby_id)
    standby = draft.processor(group_id, standby_id)
    draft.put_processor(group_id, standby.evolve(last_seen_host=None))
    draft.emit(
        DeleteLocality(standby_id),
        WriteLocality(active_id, host),
        CountMetric("failovers-to-standby"),
    )
    _remember(draft, group_id, active_id, standby_id)
    if standby.phase in (Phase.STARTING, Phase.RUNNING):
        containers.stop(draft, group_id, standby_id)
        action = ownership.owner(draft.group(group_id), active_id, Stage.STARTING)
        if action is not None:
            draft.put_action(group_id, action.stopping(standby_id))
    # Where no process of the standby's has held the room so far, another may have it: next one.
    containers.request_host(draft, group_id, active_id, host, urgent=standby.incarnation is None)
    return True


def look_again(draft: Draft, group_id: str) -> None:
    """An active that would start without its state takes the place of a standby ready by now.

    As long as it hasn't started: its request is open, or what it reserved waits for a fence
    or the end of a lease. A place that was sought since it ran isn't sought again.
    """
    group = draft.group(group_id)
    for active_id, active in group.processors.items():
        request = active.request
        if request is None or request.host is not None or active.role is not Role.ACTIVE:
            continue
        if group.failover is not None or active.last_seen_host is None:
            return
        action = ownership.owner(group, active_id, Stage.STARTING)
        if action is not None and action.ask.kind is not RequestKind.FAIL_OVER:
            return
        tried = active.sought
        ready = [pid for pid in candidates(draft, group, active_id) if pid not in tried]
        if ready:
            draft.emit(ReleaseResource(request.request_id))
            begin(draft, group_id, active_id, f"it was ready before {active_id} started", tried)
        return


def candidates(draft: Draft, group: Group, active_id: str) -> list[str]:
    """Standbys that run on hosts where the active may be, the one soonest ready first."""
    return places.ready(group, _seen(draft), active_id)


def abandon(draft: Draft, group_id: str, why: str) -> None:
    """The standby's place isn't to be had: the next one's, else any host."""
    failover = draft.group(group_id).failover
    assert failover is not None
    draft.put_failover(group_id, None)
    request = draft.processor(group_id, failover.active_id).request
    assert request is not None
    draft.emit(ReleaseResource(request.request_id))
    next_rung(draft, group_id, failover.active_id, why, failover.tried)
    group = draft.group(group_id)
    action = ownership.owner(group, failover.active_id, Stage.STARTING)
    if action is not None and action.ask.kind is RequestKind.FAIL_OVER and group.failover is None:
        message = texts.no_place(failover.standby_id, why)
        responses.respond(draft, group_id, action, texts.IN_PROGRESS, message)


def waits_for(group: Group, standby: Processor) -> bool:
    """Whether a failover can't go on before this process of the standby is dead."""
    failing_over = group.failover
    if failing_over is None or failing_over.standby_id != standby.processor_id:
        return False
    gives_way = standby.incarnation is not None and standby.incarnation.host == failing_over.host
    return gives_way and group.processors[failing_over.active_id].incarnation is None


def call_off(draft: Draft, group_id: str) -> None:
    """The active runs where it was: its standby may have its place again."""
    failover = draft.group(group_id).failover
    assert failover is not None
    draft.put_failover(group_id, None)
    standby = draft.processor(group_id, failover.standby_id)
    if standby.last_seen_host is None:
        draft.put_processor(group_id, standby.evolve(last_seen_host=failover.host))


def _seen(draft: Draft) -> places.PlaceSeen:
    return places.PlaceSeen(draft.hosts, draft.lags, draft.now_ms, draft.limits.host_affinity)


def _what_is_known(draft: Draft, standby: Processor) -> str:
    """Of a standby that doesn't run: what it was, and how far behind."""
    if standby.phase is Phase.RUNNING:
        return ""
    lag = draft.lags.get(standby.processor_id)
    behind = texts.how_far_behind(None if lag is None else lag.records)
    return f"; it was {standby.phase}, {behind}"


def _remember(draft: Draft, group_id: str, active_id: str, standby_id: str) -> None:
    """This standby's place was sought since the active ran."""
    active = draft.processor(group_id, active_id)
    if standby_id not in active.sought:
        draft.put_processor(group_id, active.evolve(sought=(*active.sought, standby_id)))


def _take_from(draft: Draft, group_id: str, active_id: str) -> None:
    """An action that moves this standby gives it up."""
    action = draft.group(group_id).action
    assert action is not None
    responses.fail(draft, group_id, action, texts.standby_needed(active_id))
    responses.give_back(draft, action)
    draft.put_action(group_id, None)
