"""The life of one processor: ask, reserve, start, run, die, start again.

Placement actions and failovers decide where; here is what each of them has in common.
"""

from __future__ import annotations

from samza_dagster.placement import audit, failures, rules
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
from samza_dagster.placement.state import (
    End,
    Ended,
    Incarnation,
    Phase,
    Processor,
    ResourceRequest,
)

# What the cluster has beyond its own expiry before the reducer expires a request itself.
REQUEST_MARGIN_MS = 1_000
# An unanswered stop is asked again after this.
STOP_RETRY_MS = 30_000


def new_request(
    draft: Draft,
    group_id: str,
    processor_id: str,
    host: str | None,
    excluded: set[str],
    expiry_ms: int,
    *,
    urgent: bool = False,
) -> ResourceRequest:
    """Asks the cluster for a resource; the reducer expires it a margin after the cluster should."""
    request = ResourceRequest(
        draft.new_request_id(),
        host,
        tuple(sorted(excluded)) if host is None else (),
        draft.now_ms + expiry_ms + REQUEST_MARGIN_MS,
        urgent=urgent,
    )
    draft.emit(request_command(draft, group_id, processor_id, request))
    return request


def request_command(
    draft: Draft, group_id: str, processor_id: str, request: ResourceRequest
) -> RequestResource:
    """The command of a request that is open or held; repeated, its expiry and `ahead` are new."""
    processor = draft.group(group_id).processors.get(processor_id)
    return RequestResource(
        request_id=request.request_id,
        processor_id=processor_id,
        host=request.allocated_host or request.host,
        excluded_hosts=request.excluded_hosts,
        memory_mb=draft.limits.container_memory_mb,
        cores=draft.limits.container_cores,
        expires_in_ms=max(1, time_left_ms(draft, request)),
        execution_id=draft.execution_id(processor_id, request.request_id),
        ahead=processor is not None and processor.phase is Phase.RUNNING,
        urgent=request.urgent,
    )


def time_left_ms(draft: Draft, request: ResourceRequest) -> int:
    """How long the cluster may still take for a request; below 0 within the reducer's margin."""
    return request.deadline_ms - REQUEST_MARGIN_MS - draft.now_ms


def request_host(
    draft: Draft, group_id: str, processor_id: str, host: str, *, urgent: bool = False
) -> None:
    """Requests a resource on one host, by name."""
    timeout_ms = draft.limits.request_timeout_ms
    request = new_request(draft, group_id, processor_id, host, set(), timeout_ms, urgent=urgent)
    draft.emit(CountMetric("preferred-host-requests"))
    put_request(draft, group_id, processor_id, request)


def request_any(draft: Draft, group_id: str, processor_id: str) -> None:
    """Requests any host but those that are taken, lost, or where a start failed lately."""
    group = draft.group(group_id)
    processor = group.processors[processor_id]
    excluded = draft.forbidden_hosts(group_id, processor_id)
    excluded.update(processor.avoid_hosts)
    timeout_ms = draft.limits.request_timeout_ms
    request = new_request(draft, group_id, processor_id, None, excluded, timeout_ms)
    draft.emit(CountMetric("any-host-requests"))
    put_request(draft, group_id, processor_id, request)


def put_request(draft: Draft, group_id: str, processor_id: str, request: ResourceRequest) -> None:
    """The processor waits for this resource."""
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(group_id, processor.evolve(phase=Phase.REQUESTING, request=request))


def drop_request(draft: Draft, group_id: str, processor_id: str) -> None:
    """Gives back what the processor has requested or reserved; it waits for another turn."""
    processor = draft.processor(group_id, processor_id)
    if processor.request is not None:
        draft.emit(ReleaseResource(processor.request.request_id))
        wait(draft, group_id, processor_id, not_before_ms=draft.now_ms)


def hold(
    draft: Draft, group_id: str, processor_id: str, request: ResourceRequest, host: str
) -> None:
    """The resource is held on `host`: the processor starts there once nothing is in the way."""
    processor = draft.processor(group_id, processor_id)
    request = request.evolve(allocated_host=host)
    draft.put_processor(group_id, processor.evolve(phase=Phase.RESERVED, request=request))


def start_reserved(draft: Draft, group_id: str, processor_id: str) -> rules.Violation | None:
    """Starts what is reserved, unless something is in the way (then later) or a rule is broken.

    Returns the broken rule; the caller gives the resource back and chooses anew.
    """
    group = draft.group(group_id)
    processor = group.processors[processor_id]
    request = processor.request
    assert request is not None
    assert request.allocated_host is not None
    host = request.allocated_host
    broken = rules.violation(group, draft.hosts, processor_id, host)
    if broken is not None or rules.in_the_way(group, processor_id, host) or draft.regrouped_epoch:
        return broken
    # What was measured is of the incarnation before.
    draft.lags = draft.lags.delete(processor_id) if processor_id in draft.lags else draft.lags
    incarnation = draft.new_incarnation(processor_id, host, request.request_id)
    audit.start(draft, group, processor, incarnation)
    draft.put_processor(
        group_id,
        processor.evolve(
            phase=Phase.STARTING,
            incarnation=incarnation,
            request=None,
            deadline_ms=draft.now_ms + draft.limits.start_timeout_ms,
        ),
    )
    draft.emit(start_command(processor_id, incarnation))
    return None


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
    if processor.phase is Phase.STARTING:
        processor = processor.evolve(start_deadline_ms=processor.deadline_ms)
    draft.put_processor(
        group_id,
        processor.evolve(phase=Phase.STOPPING, deadline_ms=draft.now_ms + STOP_RETRY_MS),
    )
    draft.emit(StopContainer(incarnation.execution_id, incarnation.host))


def lives_on(draft: Draft, group_id: str, processor_id: str) -> None:
    """The stop failed: the container lives on, as before it was asked.

    One that hasn't checked in has what is left of its time to start.
    """
    processor = draft.processor(group_id, processor_id)
    if processor.start_deadline_ms is not None:
        draft.put_processor(
            group_id,
            processor.evolve(
                phase=Phase.STARTING,
                deadline_ms=processor.start_deadline_ms,
                start_deadline_ms=None,
            ),
        )
    else:
        checked_in(draft, group_id, processor_id)


def checked_in(draft: Draft, group_id: str, processor_id: str) -> None:
    """It runs: its host is the one last seen, and the tries before are forgotten."""
    processor = draft.processor(group_id, processor_id)
    assert processor.incarnation is not None
    host = processor.incarnation.host
    draft.put_processor(
        group_id,
        processor.evolve(
            phase=Phase.RUNNING,
            last_seen_host=host,
            attempts=0,
            avoid_hosts=(),
            deadline_ms=None,
            unplaced=False,
            sought=(),
        ),
    )
    draft.emit(WriteLocality(processor_id, host))


def checked_in_too_late(draft: Draft, group_id: str, processor_id: str) -> None:
    """It runs, and is being stopped: should it survive that, it has checked in."""
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(group_id, processor.evolve(start_deadline_ms=None))


def start_overdue(draft: Draft, group_id: str, processor_id: str) -> None:
    """No check-in in time: the incarnation is stopped, and only its death leads on."""
    failures.count_failed_start(draft, group_id, draft.processor(group_id, processor_id))
    stop(draft, group_id, processor_id)


def bury(draft: Draft, group_id: str, processor_id: str, evidence: str) -> Processor:
    """No process is left: gives its resource back. Returns the processor as it was before."""
    processor = draft.processor(group_id, processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None
    last = audit.end(draft, group_id, processor_id, incarnation, Ended.DEAD, evidence)
    draft.put_processor(group_id, without_process(draft, processor, last))
    draft.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )
    return processor


def without_process(draft: Draft, processor: Processor, last_end: End | None) -> Processor:
    """The processor with no incarnation, waiting from now on."""
    return processor.evolve(
        phase=Phase.WAITING,
        incarnation=None,
        deadline_ms=None,
        start_deadline_ms=None,
        waiting_since_ms=draft.now_ms,
        not_before_ms=draft.now_ms,
        last_end=last_end,
    )


def wait(draft: Draft, group_id: str, processor_id: str, *, not_before_ms: int) -> None:
    """Back to the line of those that are to start."""
    processor = draft.processor(group_id, processor_id)
    draft.put_processor(
        group_id,
        processor.evolve(
            phase=Phase.WAITING,
            request=None,
            waiting_since_ms=draft.now_ms,
            not_before_ms=not_before_ms,
        ),
    )


def preferred_host(draft: Draft, processor: Processor) -> str | None:
    """The last seen host, where its state is: every second try. None with host affinity off."""
    if not draft.limits.host_affinity or processor.last_seen_host in processor.avoid_hosts[-1:]:
        return None
    return processor.last_seen_host


def give_up_turn(draft: Draft, group_id: str, processor_id: str) -> None:
    """No host at all could be had: back in line, not before this request's time is up."""
    processor = draft.processor(group_id, processor_id)
    request = processor.request
    assert request is not None
    draft.emit(ReleaseResource(request.request_id))
    draft.put_processor(group_id, processor.evolve(attempts=processor.attempts + 1, avoid_hosts=()))
    wait(draft, group_id, processor_id, not_before_ms=request.deadline_ms)


def forget(execution_id: str, host: str) -> ForgetContainer:
    """The agent may drop its record of a dead incarnation that is nobody's."""
    return ForgetContainer(execution_id, host)
