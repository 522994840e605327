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
from samza_dagster.placement.draft import GroupStep
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
    step: GroupStep,
    host: str | None,
    excluded: set[str],
    expiry_ms: int,
    *,
    urgent: bool = False,
) -> ResourceRequest:
    """A request to `ask` for; the reducer expires it a margin after the cluster should."""
    return ResourceRequest(
        step.draft.new_request_id(),
        host,
        tuple(sorted(excluded)) if host is None else (),
        step.now_ms + expiry_ms + REQUEST_MARGIN_MS,
        urgent=urgent,
    )


def ask(step: GroupStep, processor_id: str, request: ResourceRequest) -> None:
    """Asks the cluster for what is open or held; repeated, its expiry and `ahead` are new."""
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
    """How long the cluster may still take for a request; below 0 within the reducer's margin."""
    return request.deadline_ms - REQUEST_MARGIN_MS - step.now_ms


def request_host(step: GroupStep, processor_id: str, host: str, *, urgent: bool = False) -> None:
    """Requests a resource on one host, by name."""
    request = new_request(step, host, set(), step.limits.request_timeout_ms, urgent=urgent)
    ask(step, processor_id, request)
    step.emit(CountMetric("preferred-host-requests"))
    wait_for(step, processor_id, request)


def request_any(step: GroupStep, processor_id: str) -> None:
    """Requests any host but those that are taken, lost, or where a start failed lately."""
    excluded = step.forbidden_hosts(processor_id)
    excluded.update(step.processor(processor_id).avoid_hosts)
    request = new_request(step, None, excluded, step.limits.request_timeout_ms)
    ask(step, processor_id, request)
    step.emit(CountMetric("any-host-requests"))
    wait_for(step, processor_id, request)


def wait_for(step: GroupStep, processor_id: str, request: ResourceRequest) -> None:
    """The processor waits for this resource."""
    step.change(processor_id, phase=Phase.REQUESTING, request=request)


def drop_request(step: GroupStep, processor_id: str) -> None:
    """Gives back what the processor has requested or reserved; it waits for another turn."""
    request = step.processor(processor_id).request
    if request is not None:
        step.emit(ReleaseResource(request.request_id))
        wait(step, processor_id, not_before_ms=step.now_ms)


def hold(step: GroupStep, processor_id: str, request: ResourceRequest, host: str) -> None:
    """The resource is held on `host`: the processor starts there once nothing is in the way."""
    request = request.evolve(allocated_host=host)
    step.change(processor_id, phase=Phase.RESERVED, request=request)


def start_reserved(step: GroupStep, processor_id: str) -> rules.Violation | None:
    """Starts what is reserved, unless something is in the way (then later) or a rule is broken.

    Returns the broken rule; the caller gives the resource back and chooses anew.
    """
    draft, group = step.draft, step.group
    processor = group.processors[processor_id]
    request = processor.request
    assert request is not None
    assert request.allocated_host is not None
    host = request.allocated_host
    broken = rules.violation(group, step.hosts, processor_id, host)
    if broken is not None or rules.in_the_way(group, processor_id, host) or draft.regrouped_epoch:
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
    """The command that starts an incarnation; the same for each repetition."""
    return StartContainer(
        processor_id, incarnation.execution_id, incarnation.host, incarnation.request_id
    )


def stop(step: GroupStep, processor_id: str) -> None:
    """Stops the incarnation; its death is the next thing that matters."""
    processor = step.processor(processor_id)
    incarnation = processor.incarnation
    assert incarnation is not None, f"{processor_id} has nothing to stop"
    if processor.phase is Phase.STARTING:
        processor = processor.evolve(start_deadline_ms=processor.deadline_ms)
    deadline_ms = step.now_ms + STOP_RETRY_MS
    step.put_processor(processor.evolve(phase=Phase.STOPPING, deadline_ms=deadline_ms))
    step.emit(StopContainer(incarnation.execution_id, incarnation.host))


def lives_on(step: GroupStep, processor_id: str) -> None:
    """The stop failed: the container lives on, as before it was asked.

    One that hasn't checked in has what is left of its time to start.
    """
    deadline_ms = step.processor(processor_id).start_deadline_ms
    if deadline_ms is None:
        checked_in(step, processor_id)
        return
    step.change(processor_id, phase=Phase.STARTING, deadline_ms=deadline_ms, start_deadline_ms=None)


def checked_in(step: GroupStep, processor_id: str) -> None:
    """It runs: its host is the one last seen, and the tries before are forgotten."""
    incarnation = step.processor(processor_id).incarnation
    assert incarnation is not None
    run(step, processor_id, incarnation)


def run(step: GroupStep, processor_id: str, incarnation: Incarnation) -> None:
    """The processor runs as this incarnation."""
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


def start_overdue(step: GroupStep, processor_id: str) -> None:
    """No check-in in time: the incarnation is stopped, and only its death leads on."""
    failures.count_failed_start(step, step.processor(processor_id))
    stop(step, processor_id)


def bury(step: GroupStep, processor_id: str, evidence: str) -> Processor:
    """No process is left: gives its resource back. Returns the processor as it was before."""
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
    """The processor has no incarnation any more, and waits from now on."""
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
    """Back to the line of those that are to start."""
    step.change(
        processor_id,
        phase=Phase.WAITING,
        request=None,
        waiting_since_ms=step.now_ms,
        not_before_ms=not_before_ms,
    )


def preferred_host(step: GroupStep, processor: Processor) -> str | None:
    """The last seen host, where its state is: every second try. None with host affinity off."""
    if not step.limits.host_affinity or processor.last_seen_host in processor.avoid_hosts[-1:]:
        return None
    return processor.last_seen_host


def give_up_turn(step: GroupStep, processor_id: str) -> None:
    """No host at all could be had: back in line, not before this request's time is up."""
    processor = step.processor(processor_id)
    request = processor.request
    assert request is not None
    step.emit(ReleaseResource(request.request_id))
    step.change(processor_id, attempts=processor.attempts + 1, avoid_hosts=())
    wait(step, processor_id, not_before_ms=request.deadline_ms)
