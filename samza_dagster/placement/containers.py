"""The life of one processor outside of placement actions: ask, start, run, die, start again."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import rules
from samza_dagster.placement.commands import (
    CountMetric,
    ForgetContainer,
    ReleaseResource,
    RequestResource,
    StartContainer,
    StopContainer,
    WriteLocality,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Incarnation, Phase, Processor, ResourceRequest

# What the cluster has beyond its own expiry before the heart expires a request itself.
REQUEST_MARGIN_MS = 1_000
# An unanswered stop is asked again after this.
STOP_RETRY_MS = 30_000
# Pause before a start that follows failed ones, times their number.
ATTEMPT_PAUSE_MS = 500
LONGEST_PAUSE_MS = 30_000


def new_request(
    draft: Draft, processor_id: str, host: str | None, excluded: set[str], expiry_ms: int
) -> ResourceRequest:
    """Asks the cluster for a resource; the heart expires it a margin after the cluster should."""
    request = ResourceRequest(
        draft.new_request_id(),
        host,
        tuple(sorted(excluded)) if host is None else (),
        draft.now_ms + expiry_ms + REQUEST_MARGIN_MS,
    )
    draft.emit(request_command(draft, processor_id, request))
    return request


def request_command(draft: Draft, processor_id: str, request: ResourceRequest) -> RequestResource:
    """The command of a request that is open or held; the same for each repetition but its expiry."""
    return RequestResource(
        request_id=request.request_id,
        processor_id=processor_id,
        host=request.allocated_host or request.host,
        excluded_hosts=request.excluded_hosts,
        memory_mb=draft.limits.container_memory_mb,
        cores=draft.limits.container_cores,
        expires_in_ms=max(1, request.deadline_ms - REQUEST_MARGIN_MS - draft.now_ms),
    )


def ask(draft: Draft, group_id: str, processor_id: str, preferred: str | None) -> None:
    """Requests `preferred` when it is legal now, else any legal host."""
    group = draft.group(group_id)
    if preferred is None or rules.violation(group, draft.hosts, processor_id, preferred):
        ask_any(draft, group_id, processor_id)
        return
    request = new_request(draft, processor_id, preferred, set(), draft.limits.request_timeout_ms)
    draft.emit(CountMetric("preferred-host-requests"))
    _requesting(draft, group_id, processor_id, request)


def ask_any(draft: Draft, group_id: str, processor_id: str) -> None:
    """Requests any host but those that are taken, lost, or where the last start failed."""
    group = draft.group(group_id)
    processor = group.processors[processor_id]
    excluded = set(rules.taken_hosts(group, processor_id)) | rules.lost_hosts(draft.hosts)
    if processor.avoid_host is not None:
        excluded.add(processor.avoid_host)
    request = new_request(draft, processor_id, None, excluded, draft.limits.request_timeout_ms)
    draft.emit(CountMetric("any-host-requests"))
    _requesting(draft, group_id, processor_id, request)


def preferred_host(draft: Draft, processor: Processor) -> str | None:
    """The last seen host, where its state is; None with host affinity off."""
    if not draft.limits.host_affinity or processor.last_seen_host == processor.avoid_host:
        return None
    return processor.last_seen_host


def allocated(
    draft: Draft, group_id: str, processor_id: str, request: ResourceRequest, host: str
) -> None:
    """Starts on `host`; when it has become illegal, gives it back and asks anew without it."""
    broken = rules.violation(draft.group(group_id), draft.hosts, processor_id, host)
    if broken is None:
        start(draft, group_id, processor_id, request.request_id, host)
        return
    draft.emit(ReleaseResource(request.request_id), CountMetric("failed-standby-allocations"))
    ask_any(draft, group_id, processor_id)


def expired(draft: Draft, group_id: str, processor_id: str, request: ResourceRequest) -> None:
    """A named host becomes any host; any host becomes a new turn, not before this one's time."""
    draft.emit(ReleaseResource(request.request_id))
    if request.host is not None:
        draft.emit(CountMetric("expired-preferred-host-requests"))
        ask_any(draft, group_id, processor_id)
        return
    draft.emit(CountMetric("expired-any-host-requests"))
    processor = draft.processor(group_id, processor_id)
    processor = replace(processor, attempts=processor.attempts + 1, avoid_host=None)
    draft.put_processor(group_id, processor)
    wait(draft, group_id, processor_id, not_before_ms=request.deadline_ms)


def start(draft: Draft, group_id: str, processor_id: str, request_id: str, host: str) -> None:
    """Starts a new incarnation on the resource held. No earlier one may be alive."""
    processor = draft.processor(group_id, processor_id)
    assert processor.incarnation is None, f"{processor_id} still has {processor.incarnation}"
    incarnation = draft.new_incarnation(processor_id, host, request_id)
    draft.put_processor(
        group_id,
        replace(
            processor,
            phase=Phase.STARTING,
            incarnation=incarnation,
            request=None,
            deadline_ms=draft.now_ms + draft.limits.start_timeout_ms,
        ),
    )
    draft.emit(start_command(processor_id, incarnation))


def start_command(processor_id: str, incarnation: Incarnation) -> StartContainer:
    """The command that starts an incarnation; the same for each repetition."""
    return StartContainer(
        processor_id, incarnation.execution_id, incarnation.host, incarnation.request_id
    )


def stop(draft: Draft, group_id: str, processor_id: str) -> None:
    """Stops the incarnation; its death is the next thing that matters."""
    processor = draft.processor(group_id, processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None, f"{processor_id} has nothing to stop"
    draft.put_processor(
        group_id,
        replace(processor, phase=Phase.STOPPING, deadline_ms=draft.now_ms + STOP_RETRY_MS),
    )
    draft.emit(StopContainer(processor_id, incarnation.execution_id, incarnation.host))


def checked_in(draft: Draft, group_id: str, processor_id: str) -> None:
    """It runs: its host is the one last seen, and the tries before are forgotten."""
    processor = draft.processor(group_id, processor_id)
    assert processor.incarnation is not None
    host = processor.incarnation.host
    draft.put_processor(
        group_id,
        replace(
            processor,
            phase=Phase.RUNNING,
            last_seen_host=host,
            attempts=0,
            avoid_host=None,
            deadline_ms=None,
        ),
    )
    draft.emit(WriteLocality(processor_id, host))


def start_overdue(draft: Draft, group_id: str, processor_id: str) -> None:
    """No check-in in time: the incarnation is stopped, and only its death leads on."""
    count_failed_start(draft, group_id, draft.processor(group_id, processor_id))
    stop(draft, group_id, processor_id)


def bury(draft: Draft, group_id: str, processor_id: str) -> Processor:
    """No process is left: gives its resource back. Returns the processor as it was before."""
    processor = draft.processor(group_id, processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None
    draft.put_processor(
        group_id,
        replace(
            processor,
            phase=Phase.WAITING,
            incarnation=None,
            deadline_ms=None,
            waiting_since_ms=draft.now_ms,
            not_before_ms=draft.now_ms,
        ),
    )
    draft.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )
    return processor


def ended(draft: Draft, group_id: str, before: Processor) -> None:
    """What follows a death that no action asked for; `before` is what `bury` returned.

    One that ran goes to the same host, at once. Others take a turn to start.
    """
    processor_id = before.processor_id
    if not before.wanted:
        draft.remove_processor(group_id, processor_id)
        return
    if before.phase is Phase.RUNNING:
        count_death(draft, group_id, processor_id)
        ask(draft, group_id, processor_id, preferred_host(draft, before))
        return
    if before.phase is Phase.STARTING:
        count_failed_start(draft, group_id, before)
    attempts = draft.processor(group_id, processor_id).attempts
    pause = min(LONGEST_PAUSE_MS, ATTEMPT_PAUSE_MS * attempts)
    wait(draft, group_id, processor_id, not_before_ms=draft.now_ms + pause)


def count_death(draft: Draft, group_id: str, processor_id: str) -> None:
    """One more container that ended unasked."""
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(group_id, replace(processor, failures=processor.failures + 1))
    draft.emit(CountMetric("failed-containers"))


def count_failed_start(draft: Draft, group_id: str, started: Processor) -> None:
    """One more start that never checked in; the next try avoids its host."""
    processor = draft.processor(group_id, started.processor_id)
    failed_on = started.incarnation.host if started.incarnation else None
    draft.put_processor(
        group_id, replace(processor, attempts=processor.attempts + 1, avoid_host=failed_on)
    )
    count_death(draft, group_id, started.processor_id)


def wait(draft: Draft, group_id: str, processor_id: str, *, not_before_ms: int) -> None:
    """Back to the line of those that are to start."""
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(
        group_id,
        replace(
            processor,
            phase=Phase.WAITING,
            request=None,
            waiting_since_ms=draft.now_ms,
            not_before_ms=not_before_ms,
        ),
    )


def _requesting(draft: Draft, group_id: str, processor_id: str, request: ResourceRequest) -> None:
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(group_id, replace(processor, phase=Phase.REQUESTING, request=request))
