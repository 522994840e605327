"""The life of one processor: request, reserve, start, run, die, start again.

Placement actions and failovers decide where; this module has what they share.
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
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    End,
    Ended,
    Incarnation,
    Phase,
    Processor,
    ResourceRequest,
)

# The reducer expires a request this much after the cluster should have.
REQUEST_MARGIN_MS = 1_000
# The reducer repeats an unanswered stop after this.
STOP_RETRY_MS = 30_000


def new_request(
    step: GroupStep,
    host: str | None,
    excluded: set[str],
    expiry_ms: int,
    *,
    urgent: bool = False,
) -> ResourceRequest:
    """Return a request for `ask`; the reducer expires it a margin after the cluster should."""
    return ResourceRequest(
        step.draft.new_request_id(),
        host,
        tuple(sorted(excluded)) if host is None else (),
        step.now_ms + expiry_ms + REQUEST_MARGIN_MS,
        urgent=urgent,
    )


def ask(step: GroupStep, processor_id: str, request: ResourceRequest) -> None:
    """Ask the cluster for a request's resource; a repetition has a new expiry and a new `ahead`."""
    processor = step.group.processors.get(processor_id)
    step.emit(
        RequestResource(
            request_id=request.request_id,
            processor_id=processor_id,
            host=request.allocated_host or request.host,
            excluded_hosts=request.excluded_hosts,
            memory_mb=step.limits.container_memory_mb,
            cores=step.limits.container_cores,
            expires_in_ms=max(1, time_left_ms(step, request)),
            execution_id=step.draft.execution_id(processor_id, request.request_id),
            ahead=processor is not None and processor.phase is Phase.RUNNING,
            urgent=request.urgent,
        )
    )


def time_left_ms(step: GroupStep, request: ResourceRequest) -> int:
    """Return how long the cluster may still take; negative within the reducer's margin."""
    return request.deadline_ms - REQUEST_MARGIN_MS - step.now_ms


def request_host(step: GroupStep, processor_id: str, host: str, *, urgent: bool = False) -> None:
    """Request a resource on one host, by name."""
    request = new_request(step, host, set(), step.limits.request_timeout_ms, urgent=urgent)
    ask(step, processor_id, request)
    step.emit(CountMetric("preferred-host-requests"))
    wait_for(step, processor_id, request)


def request_any(step: GroupStep, processor_id: str) -> None:
    """Request any host except taken and lost ones, and those where a start failed lately."""
    excluded = step.forbidden_hosts(processor_id)
    excluded.update(step.processor(processor_id).avoid_hosts)
    request = new_request(step, None, excluded, step.limits.request_timeout_ms)
    ask(step, processor_id, request)
    step.emit(CountMetric("any-host-requests"))
    wait_for(step, processor_id, request)


def wait_for(step: GroupStep, processor_id: str, request: ResourceRequest) -> None:
    """Let the processor wait for this resource."""
    step.change(processor_id, phase=Phase.REQUESTING, request=request)


def drop_request(step: GroupStep, processor_id: str) -> None:
    """Release the processor's open or held resource; the processor waits for another turn."""
    request = step.processor(processor_id).request
    if request is not None:
        step.emit(ReleaseResource(request.request_id))
        wait(step, processor_id, not_before_ms=step.now_ms)


def hold(step: GroupStep, processor_id: str, request: ResourceRequest, host: str) -> None:
    """Record that the resource is held on `host`; the processor starts once nothing forbids it."""
    request = request.evolve(allocated_host=host)
    step.change(processor_id, phase=Phase.RESERVED, request=request)


def start_reserved(step: GroupStep, processor_id: str) -> rules.Violation | None:
    """Start a reserved processor, unless a predecessor is in the way or a rule is broken.

    Returns the broken rule. The caller then releases the resource and chooses another host. A
    predecessor in the way only delays the start.
    """
    draft, group = step.draft, step.group
    processor = group.processors[processor_id]
    request = processor.request
    assert request is not None
    assert request.allocated_host is not None
    host = request.allocated_host
    broken = rules.violation(group, step.hosts, processor_id, host)
    if broken is not None or rules.obstacle(group, processor_id, host) or draft.regrouped_epoch:
        return broken
    draft.forget_lag(processor_id)
    incarnation = draft.new_incarnation(processor_id, host, request.request_id)
    audit.start(step, processor, incarnation)
    step.change(
        processor_id,
        phase=Phase.STARTING,
        incarnation=incarnation,
        request=None,
        deadline_ms=step.now_ms + step.limits.start_timeout_ms,
    )
    step.emit(start_command(processor_id, incarnation))
    return None


def start_command(processor_id: str, incarnation: Incarnation) -> StartContainer:
    """Return the command that starts an incarnation; equal for each repetition."""
    return StartContainer(
        processor_id, incarnation.execution_id, incarnation.host, incarnation.request_id
    )


def stop(step: GroupStep, processor_id: str) -> None:
    """Stop the incarnation; its death is the next event that matters."""
    processor = step.processor(processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None, f"{processor_id} has nothing to stop"
    if processor.phase is Phase.STARTING:
        processor = processor.evolve(start_deadline_ms=processor.deadline_ms)
    deadline_ms = step.now_ms + STOP_RETRY_MS
    step.put_processor(processor.evolve(phase=Phase.STOPPING, deadline_ms=deadline_ms))
    step.emit(StopContainer(incarnation.execution_id, incarnation.host))


def undo_stop(step: GroupStep, processor_id: str) -> None:
    """Undo a stop that failed: the container continues as before the stop."""
    # A container that hasn't checked in keeps the rest of its time to start.
    deadline_ms = step.processor(processor_id).start_deadline_ms
    if deadline_ms is None:
        check_in(step, processor_id)
        return
    step.change(processor_id, phase=Phase.STARTING, deadline_ms=deadline_ms, start_deadline_ms=None)


def check_in(step: GroupStep, processor_id: str) -> None:
    """Record that the processor runs on its host, and forget its failed tries."""
    incarnation = step.processor(processor_id).incarnation
    assert incarnation is not None
    run(step, processor_id, incarnation)


def run(step: GroupStep, processor_id: str, incarnation: Incarnation) -> None:
    """Record that the processor runs as this incarnation."""
    step.change(
        processor_id,
        phase=Phase.RUNNING,
        incarnation=incarnation,
        last_seen_host=incarnation.host,
        attempts=0,
        avoid_hosts=(),
        deadline_ms=None,
        unplaced=False,
        sought=(),
    )
    step.emit(WriteLocality(processor_id, incarnation.host))


def stop_overdue(step: GroupStep, processor_id: str) -> None:
    """Stop an incarnation that didn't check in in time; its death leads on."""
    failures.count_failed_start(step, step.processor(processor_id))
    stop(step, processor_id)


def bury(step: GroupStep, processor_id: str, evidence: str) -> Processor:
    """Record that the process is dead and release its resource; return the processor as it was."""
    processor = step.processor(processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None
    last = audit.end(step, processor_id, incarnation, Ended.DEAD, evidence)
    lose_process(step, processor, last)
    step.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )
    return processor


def lose_process(step: GroupStep, processor: Processor, last_end: End | None) -> None:
    """Take the incarnation from a processor, which waits from now on."""
    step.put_processor(
        processor.evolve(
            phase=Phase.WAITING,
            incarnation=None,
            deadline_ms=None,
            start_deadline_ms=None,
            waiting_since_ms=step.now_ms,
            not_before_ms=step.now_ms,
            last_end=last_end,
        )
    )


def wait(step: GroupStep, processor_id: str, *, not_before_ms: int) -> None:
    """Put a processor back among those that wait for a turn to start."""
    step.change(
        processor_id,
        phase=Phase.WAITING,
        request=None,
        waiting_since_ms=step.now_ms,
        not_before_ms=not_before_ms,
    )


def preferred_host(step: GroupStep, processor: Processor) -> str | None:
    """Return the last seen host on every second try; None with host affinity off."""
    # The last seen host has the state.
    if not step.limits.host_affinity or processor.last_seen_host in processor.avoid_hosts[-1:]:
        return None
    return processor.last_seen_host


def give_up_turn(step: GroupStep, processor_id: str) -> None:
    """Put a processor back in line when no host has room, until its request's time is up."""
    processor = step.processor(processor_id)
    request = processor.request
    assert request is not None
    step.emit(ReleaseResource(request.request_id))
    step.change(processor_id, attempts=processor.attempts + 1, avoid_hosts=())
    wait(step, processor_id, not_before_ms=request.deadline_ms)
