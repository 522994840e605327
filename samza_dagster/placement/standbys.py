"""Standbys: started on request, stopped for good (controlStandBy), restarted when stalled.

A stalled standby lives and applies nothing. The reducer stops it, and it starts again as after a
death, because Samza restarts only what has died. The first restart is on its own host, with its
store; the next ones in a row are elsewhere. The pause between restarts grows, because a stalled
standby is still better than none.
"""

from __future__ import annotations

from itertools import count

from samza_dagster.model import naming
from samza_dagster.placement import containers, failures, host_limit, moves, responses, texts
from samza_dagster.placement.commands import CountMetric, DeleteLocality
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    Group,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
    SpinUp,
    StopStandby,
)

HEALTHY_AFTER_MS = 1_800_000
"""A stall after this much healthy time counts as the first one again."""
FIRST_PAUSE_MS = 300_000
LONGEST_PAUSE_MS = 3_600_000
# After this many restarts the pause is the longest anyway.
_REMEMBERED = 6


def new_standby_id(step: GroupStep) -> str:
    """Return the first replica number that no processor, orphan or queued request names."""
    # A queued request is about the standby that its client saw, which may be gone at its turn.
    group, members = step.group, step.draft.index.by_processor
    used = set(group.processors) | {orphan.processor_id for orphan in group.orphans}
    used |= {ask.processor_id for ask in group.queue}
    replicas = (naming.standby_container_id(group.group_id, number) for number in count())
    return next(n for n in replicas if n not in used and n not in members)


def begin_start(step: GroupStep, ask: PlacementAsk) -> None:
    """Reserve a place for one more standby, on the named host or on any legal one."""
    standby_id = new_standby_id(step)
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if host == naming.ANY_HOST:
        host, excluded = None, host_limit.excluded(step, standby_id)
    request = containers.new_request(step, host, excluded, moves.expiry_ms(step, ask))
    responses.progress(step, SpinUp(ask, standby_id, request), texts.RESOURCES_REQUESTED)
    containers.ask(step, standby_id, request)


def start_on(step: GroupStep, spin_up: SpinUp, request: ResourceRequest, host: str) -> None:
    """Add the standby to the group on its held place, and start it there."""
    standby_id = spin_up.standby_id
    chosen = host if request.host is None else None
    # Without this response a start that takes minutes would look like a lack of room.
    message = f"Standby container {standby_id} start in progress on host {host}"
    responses.progress(step, spin_up.evolve(request=None, chosen_host=chosen), message)
    step.put_processor(
        Processor(
            standby_id,
            Role.STANDBY,
            Phase.WAITING,
            waiting_since_ms=step.now_ms,
            not_before_ms=step.now_ms,
            extra=True,
        )
    )
    containers.hold(step, standby_id, request, host)


def complete_start(step: GroupStep, spin_up: SpinUp) -> None:
    """Succeed, because the standby runs."""
    standby_id = spin_up.standby_id
    incarnation = step.processor(standby_id).incarnation
    assert incarnation is not None
    message = texts.standby_started(standby_id, incarnation.host)
    responses.succeed(step, spin_up, message, (standby_id, incarnation.host))


def fail_start(step: GroupStep, spin_up: SpinUp, host: str) -> None:
    """Fail, and remove the standby, because it has no process."""
    standby_id = spin_up.standby_id
    step.remove_processor(standby_id)
    message = f"failed to start standby container {standby_id} on host {host}; it is given up"
    responses.fail(step, spin_up, message)


def begin_stop(step: GroupStep, ask: PlacementAsk) -> None:
    """Stop a standby for good; one that has no process is removed at once."""
    processor_id = ask.processor_id
    standby = step.processor(processor_id)
    if standby.incarnation is None:
        stop = StopStandby(ask, None, stopping_already=False)
        responses.progress(step, stop, texts.STANDBY_STOP_IN_PROGRESS)
        containers.drop_request(step, processor_id)
        complete_stop(step, stop)
        return
    stopping = standby.phase is Phase.STOPPING
    stop = StopStandby(ask, standby.incarnation.host, stopping, stopped=(processor_id,))
    responses.progress(step, stop, texts.STANDBY_STOP_IN_PROGRESS)
    step.change(processor_id, wanted=False)
    if not stopping:
        containers.stop(step, processor_id)


def complete_stop(step: GroupStep, stop: StopStandby) -> None:
    """Succeed, and remove the standby, because it has no process."""
    processor_id = stop.ask.processor_id
    step.emit(DeleteLocality(processor_id))
    step.remove_processor(processor_id)
    responses.succeed(step, stop, texts.standby_stopped(processor_id))


def fail_stop(step: GroupStep, stop: StopStandby) -> None:
    """Fail, because the standby survived its stop; it is a member again."""
    # A stop that had another reason before (its start was overdue, it stalled, a new deployment)
    # continues.
    processor_id = stop.ask.processor_id
    step.change(processor_id, wanted=True)
    if not stop.stopping_already:
        containers.undo_stop(step, processor_id)
    responses.fail(step, stop.evolve(stopped=()), texts.stop_failed(stop.source_host))


def fail_lost(step: GroupStep, stop: StopStandby) -> None:
    """Fail, because the host fell silent before the standby's death was seen; keep the member."""
    step.change(stop.ask.processor_id, wanted=True)
    responses.fail(step, stop, texts.host_lost(stop.source_host))


def restart_stalled(step: GroupStep, processor: Processor, for_ms: int) -> None:
    """Stop a standby that has applied nothing for `for_ms`, so that it starts again.

    This counts as a failure. The observer repeats the event.
    """
    # A late standby is better than none: leave it alone while its active is down or anything else
    # is under way in its group, and in the pause after its last restarts.
    group = step.group
    if group.action is not None or group.failover is not None or not _is_active_running(group):
        return
    standby = processor.role is Role.STANDBY and processor.wanted
    if not standby or processor.phase is not Phase.RUNNING:
        return
    before = _in_a_row(processor, step.now_ms - for_ms)
    # Negative when the time is from another leader's clock.
    if before and 0 <= step.now_ms - before[-1] < pause_ms(len(before)):
        return
    failures.count_death(step, processor.processor_id)
    step.emit(CountMetric("stalled-standbys"))
    _remember(step, processor, before)
    containers.stop(step, processor.processor_id)


def pause_ms(in_a_row: int) -> int:
    """Return the pause after this many restarts in a row."""
    # No pause before the second restart, which tries another host.
    if in_a_row < 2:
        return 0
    return min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << (in_a_row - 2))


def _in_a_row(processor: Processor, since_ms: int) -> tuple[int, ...]:
    """Return the earlier restarts without a healthy time up to `since_ms`, the stall's begin."""
    before = processor.stalled_at_ms
    return before if before and since_ms - before[-1] < HEALTHY_AFTER_MS else ()


def _remember(step: GroupStep, processor: Processor, before: tuple[int, ...]) -> None:
    assert processor.incarnation is not None
    host = processor.incarnation.host
    avoid = processor.avoid_hosts
    if before and _has_another_host(step, processor.processor_id, host):
        avoid = failures.avoiding(processor, host)
    at_ms = (*before, step.now_ms)[-_REMEMBERED:]
    step.change(processor.processor_id, avoid_hosts=avoid, stalled_at_ms=at_ms)


def _has_another_host(step: GroupStep, processor_id: str, host: str) -> bool:
    forbidden = step.forbidden_hosts(processor_id)
    return any(name != host and name not in forbidden for name in step.hosts)


def _is_active_running(group: Group) -> bool:
    return any(
        processor.role is Role.ACTIVE and processor.phase is Phase.RUNNING
        for processor in group.processors.values()
    )
