"""Standbys: one more on request, one stopped for good (controlStandBy), and one that stands still.

A standby that lives and applies nothing is stopped, and starts again as after a death, for Samza
restarts only what has died: the first time on its own host, where its store is, the next times in
a row elsewhere. One that stands still wherever it starts is left alone longer and longer between
its restarts: what it has applied is still a start.
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
"""Having applied for so long since the last restart, one that stands still does so anew."""
FIRST_PAUSE_MS = 300_000
LONGEST_PAUSE_MS = 3_600_000
# Beyond so many restarts the pause is the longest anyway.
_REMEMBERED = 6


def new_standby_id(step: GroupStep) -> str:
    """The first replica number that nobody of the job has, nor an orphan or a queued request names.

    Such a request is about the standby that its asker saw, which may be gone when it has its turn.
    """
    group, members = step.group, step.draft.index.by_processor
    used = set(group.processors) | {orphan.processor_id for orphan in group.orphans}
    used |= {ask.processor_id for ask in group.queue}
    replicas = (naming.standby_container_id(group.group_id, number) for number in count())
    return next(n for n in replicas if n not in used and n not in members)


def begin_start(step: GroupStep, ask: PlacementAsk) -> None:
    """Reserves a place for one more standby: on the host that was named, or any legal one."""
    standby_id = new_standby_id(step)
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if host == naming.ANY_HOST:
        host, excluded = None, host_limit.excluded(step, standby_id)
    request = containers.new_request(step, host, excluded, moves.expiry_ms(step, ask))
    responses.progress(step, SpinUp(ask, standby_id, request), texts.RESOURCES_REQUESTED)
    containers.ask(step, standby_id, request)


def held(step: GroupStep, spin_up: SpinUp, request: ResourceRequest, host: str) -> None:
    """A place is held: the standby becomes a member of the group and starts there."""
    standby_id = spin_up.standby_id
    chosen = host if request.host is None else None
    # Nothing is stopped in between: without it a start that takes minutes looks like a lack of room.
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


def checked_in(step: GroupStep, spin_up: SpinUp) -> None:
    """The standby runs: SUCCEEDED."""
    standby_id = spin_up.standby_id
    incarnation = step.processor(standby_id).incarnation
    assert incarnation is not None
    message = texts.standby_started(standby_id, incarnation.host)
    responses.succeed(step, spin_up, message, (standby_id, incarnation.host))


def start_failed(step: GroupStep, spin_up: SpinUp, host: str) -> None:
    """The standby has no process: FAILED, and it isn't a member any more."""
    standby_id = spin_up.standby_id
    step.remove_processor(standby_id)
    message = f"failed to start standby container {standby_id} on host {host}; it is given up"
    responses.fail(step, spin_up, message)


def begin_stop(step: GroupStep, ask: PlacementAsk) -> None:
    """Stops a standby for good; one that has no process is removed at once."""
    processor_id = ask.processor_id
    standby = step.processor(processor_id)
    if standby.incarnation is None:
        stop = StopStandby(ask, None, stopping_already=False)
        responses.progress(step, stop, texts.STANDBY_STOP_IN_PROGRESS)
        containers.drop_request(step, processor_id)
        stopped(step, stop)
        return
    stopping = standby.phase is Phase.STOPPING
    stop = StopStandby(ask, standby.incarnation.host, stopping, stopped=(processor_id,))
    responses.progress(step, stop, texts.STANDBY_STOP_IN_PROGRESS)
    step.change(processor_id, wanted=False)
    if not stopping:
        containers.stop(step, processor_id)


def stopped(step: GroupStep, stop: StopStandby) -> None:
    """It has no process: SUCCEEDED, and it isn't a member any more."""
    processor_id = stop.ask.processor_id
    step.emit(DeleteLocality(processor_id))
    step.remove_processor(processor_id)
    responses.succeed(step, stop, texts.standby_stopped(processor_id))


def stop_failed(step: GroupStep, stop: StopStandby) -> None:
    """It lives on, and is a member again, as before: FAILED.

    What was being stopped for another reason (its start was overdue, it stood still, a new
    deployment) goes on being stopped.
    """
    processor_id = stop.ask.processor_id
    step.change(processor_id, wanted=True)
    if not stop.stopping_already:
        containers.lives_on(step, processor_id)
    responses.fail(step, stop.evolve(stopped=()), texts.stop_failed(stop.source_host))


def lost(step: GroupStep, stop: StopStandby) -> None:
    """Its host fell silent before it was seen dead: FAILED, and it is a member again."""
    step.change(stop.ask.processor_id, wanted=True)
    responses.fail(step, stop, texts.host_lost(stop.source_host))


def stalled(step: GroupStep, processor: Processor, for_ms: int) -> None:
    """It has applied nothing for `for_ms`: it is stopped, and starts again.

    Counted as a failure. Left alone while its active is down or anything else is under way
    in its group, for a standby that is behind is still better than none, and in the pause
    after its last restarts. It is said again.
    """
    group = step.group
    if group.action is not None or group.failover is not None or not _active_runs(group):
        return
    standby = processor.role is Role.STANDBY and processor.wanted
    if not standby or processor.phase is not Phase.RUNNING:
        return
    before = _in_a_row(processor, step.now_ms - for_ms)
    # Below 0: the clock is another leader's.
    if before and 0 <= step.now_ms - before[-1] < pause_ms(len(before)):
        return
    failures.count_death(step, processor.processor_id)
    step.emit(CountMetric("stalled-standbys"))
    _remember(step, processor, before)
    containers.stop(step, processor.processor_id)


def pause_ms(in_a_row: int) -> int:
    """How long after so many restarts in a row the next one comes at the soonest.

    None before the second, which tries another host.
    """
    if in_a_row < 2:
        return 0
    return min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << (in_a_row - 2))


def _in_a_row(processor: Processor, since_ms: int) -> tuple[int, ...]:
    """Its restarts before this one, which stands still since then, without a healthy time."""
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


def _active_runs(group: Group) -> bool:
    return any(
        processor.role is Role.ACTIVE and processor.phase is Phase.RUNNING
        for processor in group.processors.values()
    )
