"""Failures, tries and pauses, counted a second time from what happened to each processor."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import AskKind, JobState, Phase, Processor, Role, Stage
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.failovers_counted import (
    judge_failovers_counted,
    judge_failure_open,
    of_actions,
)
from samza_dagster.simulation.judges.legality import (
    awaits_its_place,
    reasons,
    starts_by_action,
    subject_of,
)
from samza_dagster.simulation.judges.taken import Both, Taken, request_ids
from samza_dagster.simulation.judges.violation import TALLIES

_DOWN = (Phase.WAITING, Phase.REQUESTING, Phase.RESERVED)
_LONGEST_PAUSE_MS = 30_000
_PAUSE_MS = 500
_ACTIVE_FIRST_MS = 4_000


def judge_tallies(chronicle: Chronicle, taken: Taken) -> None:
    """Counters of the job, and what each processor remembers of its own past."""
    failed, removed = {Role.ACTIVE: 0, Role.STANDBY: 0}, 0
    for both in taken.both:
        was, now = both.was, both.now
        if now is None:
            # Removed in the step in which it died: that may count, or was never a failure.
            removed += _ended_unasked(both)
            continue
        if was is None:
            _judge_new(taken, both, now)
            continue
        failures = int(_ended_unasked(both) or _overdue(taken, both) or _stalled(taken, both))
        failed[now.role] += failures
        if was is now:
            continue
        if now.failures != was.failures + failures:
            raise taken.broken(TALLIES, f"{both.processor_id} has failed {now.failures} times")
        _judge_memory(taken, both, was, now, failures)
        _judge_wait(taken, both, was, now)
    if taken.changed or taken.commands:
        chronicle.premises[TALLIES] += 1
        _judge_counters(taken, failed, removed)


def _pause_ms(processor: Processor, state: JobState) -> int:
    """docs/placement.md: half a second for each try, thirty while it flaps."""
    limits = state.limits
    recent = [at for at in processor.failed_at_ms if at > state.now_ms - limits.retry_window_ms]
    if len(recent) > limits.retry_count:
        return _LONGEST_PAUSE_MS
    return min(_LONGEST_PAUSE_MS, _PAUSE_MS * processor.attempts)


def _ended_unasked(both: Both) -> bool:
    """It ran or was starting, nobody had told it to stop, and it has no process any more."""
    was = both.was
    return (
        both.ended is not None and was is not None and was.phase in (Phase.RUNNING, Phase.STARTING)
    )


def _overdue(taken: Taken, both: Both) -> bool:
    """It didn't check in in time, and is stopped for it."""
    was, now = both.was, both.now
    return (
        isinstance(taken.event, ev.TimePassed)
        and was is not None
        and now is not None
        and was.phase is Phase.STARTING
        and now.phase is Phase.STOPPING
        and was.deadline_ms is not None
        and was.deadline_ms <= taken.now_ms  # else a request of somebody's may have come to it
        # Leases end first: one whose place its active took by then was stopped for that.
        and not any(f.standby_id == both.processor_id for _, _, f in taken.failovers_begun)
    )


def _stalled(taken: Taken, both: Both) -> bool:
    """It stands still, and is stopped for it."""
    was, now, event = both.was, both.now, taken.event
    if not isinstance(event, ev.StandbyStalled) or was is None or now is None:
        return False
    told = was.incarnation is not None and was.incarnation.execution_id == event.execution_id
    return told and was.phase is Phase.RUNNING and now.phase is Phase.STOPPING


def stalls_in_a_row(taken: Taken, was: Processor) -> tuple[int, ...]:
    """The restarts of a standby that stands still, unless it has applied for half an hour since."""
    event = taken.event
    if not isinstance(event, ev.StandbyStalled) or not was.stalled_at_ms:
        return ()
    applied_for_ms = taken.now_ms - event.for_ms - was.stalled_at_ms[-1]
    return () if applied_for_ms >= 30 * 60_000 else was.stalled_at_ms


def _no_place(taken: Taken, both: Both) -> bool:
    """Its request for any host has expired: it gives its turn up."""
    was, now, event = both.was, both.now, taken.event
    if was is None or was.request is None or (now is not None and now.request == was.request):
        return False
    if was.request.host is not None or was.request.allocated_host is not None:
        return False
    if starts_by_action(both.old, both.processor_id):
        return False
    if isinstance(event, ev.RequestExpired):
        due = event.request_id == was.request.request_id
    else:
        due = isinstance(event, ev.TimePassed) and was.request.deadline_ms <= taken.now_ms
    return due and was.phase is Phase.REQUESTING and (now is None or now.phase is not Phase.RUNNING)


def _judge_new(taken: Taken, both: Both, now: Processor) -> None:
    ends = (
        [g.end for g in both.old.ghosts if g.processor_id == now.processor_id and g.end]
        if both.old
        else []
    )
    newest = max(ends, key=lambda end: end.epoch, default=None)
    if isinstance(taken.event, ev.JobDeployed) and now.last_end != newest:
        raise taken.broken(TALLIES, f"{now} is new, its ghost ended as {newest}")
    if (now.failures, now.attempts, now.failed_at_ms, now.avoid_hosts) != (0, 0, (), ()):
        raise taken.broken(TALLIES, f"{now} is new")
    if now.stalled_at_ms or now.unplaced or now.sought:
        raise taken.broken(TALLIES, f"{now} is new, and stood still or failed")
    if (now.phase is Phase.WAITING) and (
        (now.waiting_since_ms, now.not_before_ms) != (taken.now_ms, taken.now_ms)
    ):
        raise taken.broken(TALLIES, f"{now} is new and waits from now on")
    if now.extra != (not isinstance(taken.event, ev.JobDeployed)) or not now.wanted:
        raise taken.broken(TALLIES, f"{now} is new, extra or not")
    if isinstance(taken.event, ev.JobDeployed):
        seen = taken.event.last_seen_hosts.get(now.processor_id)
        if now.phase is Phase.WAITING and now.last_seen_host != seen:
            raise taken.broken(TALLIES, f"{now} was last seen on {seen}")


def _judge_memory(taken: Taken, both: Both, was: Processor, now: Processor, failures: int) -> None:
    limits, now_ms = taken.before.limits, taken.now_ms
    attempts, avoid, failed_at = was.attempts, list(was.avoid_hosts), was.failed_at_ms
    if failures:
        recent = [at for at in was.failed_at_ms if now_ms - limits.retry_window_ms < at <= now_ms]
        failed_at = tuple([*recent, now_ms][-limits.retry_count - 1 :])
    if failures and was.phase is Phase.STARTING and was.incarnation is not None:
        attempts += 1
        host = was.incarnation.host
        avoid = [*(other for other in avoid if other != host), host]
    if _no_place(taken, both):
        attempts, avoid = attempts + 1, []
    stalled_at = was.stalled_at_ms
    if _stalled(taken, both) and was.incarnation is not None and both.old is not None:
        in_a_row, host = stalls_in_a_row(taken, was), was.incarnation.host
        stalled_at = (*in_a_row, now_ms)[-6:]
        others = [name for name in taken.before.hosts if name != host]
        if in_a_row and not all(
            reasons(taken.before, both.old, now.processor_id, name) for name in others
        ):
            avoid = [*(other for other in avoid if other != host), host]
    event, incarnation = taken.event, was.incarnation
    ran = was.phase is Phase.STARTING and isinstance(event, ev.ContainerCheckedIn)
    if ran and isinstance(event, ev.ContainerCheckedIn) and incarnation is not None:
        ran = event.execution_id == incarnation.execution_id
    up = now.phase is Phase.RUNNING
    survived = was.phase is Phase.STOPPING and was.incarnation == now.incarnation
    survived = survived and (up or _survived_and_is_stopped_again(taken, now))
    over = ran or survived or (up and was.phase in _DOWN) or _is_back(both, now)
    if over:
        attempts, avoid = 0, []
    if taken.redeployed:
        attempts, avoid, failed_at, stalled_at = 0, [], (), ()
        if now.extra:
            raise taken.broken(TALLIES, f"{now} was asked for in the deployment before")
    elif now.extra != was.extra:
        raise taken.broken(TALLIES, f"{now} was extra {was.extra}")
    if now.attempts != attempts or now.avoid_hosts != tuple(avoid):
        raise taken.broken(
            TALLIES, f"{now} by count has tried {attempts} times, and avoids {avoid}"
        )
    judge_failure_open(taken, both, was, now, failures, over=over or taken.redeployed)
    if now.stalled_at_ms != stalled_at:
        raise taken.broken(TALLIES, f"{now} by count stood still at {stalled_at}")
    if now.failed_at_ms != failed_at:
        raise taken.broken(TALLIES, f"{now} by count failed at {failed_at}")


def _survived_and_is_stopped_again(taken: Taken, now: Processor) -> bool:
    """Its stop failed and it is where it is, until the action that waited asks for its stop."""
    return isinstance(taken.event, ev.StopFailed) and any(
        located.processor_id == now.processor_id for located in taken.every(cmd.WriteLocality)
    )


def _is_back(both: Both, now: Processor) -> bool:
    """Its ghost was taken back, whatever was asked of it in the same step."""
    ghosts = () if both.old is None else both.old.ghosts
    back = {g.incarnation.execution_id for g in ghosts}
    return now.incarnation is not None and now.incarnation.execution_id in back


def _judge_wait(taken: Taken, both: Both, was: Processor, now: Processor) -> None:
    """When it waits, and from when on; who has run goes on at once unless it has to pause."""
    now_ms = taken.now_ms
    if taken.restarted or taken.redeployed:
        latest = now_ms + _LONGEST_PAUSE_MS
        if (both.ended is None and was.phase is Phase.WAITING and now.phase is Phase.WAITING) and (
            now.not_before_ms != min(was.not_before_ms, latest)
        ):
            raise taken.broken(TALLIES, f"{now} waited until {was.not_before_ms}")
        return
    action = both.group.action if both.group is not None else None
    ours = both.group is not None and awaits_its_place(both.group, both.processor_id)
    began_to_wait = now.phase in _DOWN and both.ended is not None
    if began_to_wait and now.waiting_since_ms != now_ms:
        raise taken.broken(TALLIES, f"{now} waits since this step")
    if now.phase is not Phase.WAITING:
        if both.ended is not None and now.phase in _DOWN and not ours and both.group is not None:
            free = both.group.failover is not None or was.phase is Phase.RUNNING
            displaced = action is not None and action.standby_id == both.processor_id
            old = both.old.action if both.old is not None else None
            displaced = displaced or (
                old is not None and both.processor_id in (old.standby_id, subject_of(old))
            )
            if _pause_ms(now, taken.after) > 0 and not displaced and not free:
                raise taken.broken(TALLIES, f"{now} has to pause first")
        return
    if was.phase is Phase.WAITING:
        if (now.not_before_ms, now.waiting_since_ms) != (was.not_before_ms, was.waiting_since_ms):
            raise taken.broken(TALLIES, f"{now} waited already, as {was}")
        return
    if now.waiting_since_ms != now_ms:
        raise taken.broken(TALLIES, f"{now} waits since this step")
    expected = now_ms
    old = both.old.action if both.old is not None else None
    if old is not None and old.ask.kind is AskKind.STOP_STANDBY:
        ours = ours or old.ask.processor_id == both.processor_id  # nobody asked it to wait
    gave_way = old is not None and old.standby_id == both.processor_id
    gave_way = gave_way and old is not None and old.stage is Stage.STOPPING_STANDBY
    if both.group is not None and both.ended in [g.incarnation for g in both.group.ghosts]:
        gave_way = False  # its host was lost first: it goes its own way
    if any(c.processor_id == both.processor_id for c in taken.every(cmd.RequestResource)):
        # Its action had asked at once for the way back; an active has that place since.
        gave_way |= any(f.standby_id == both.processor_id for _, _, f in taken.failovers_begun)
    if both.ended is not None and not ours and not gave_way:
        expected += max(_pause_ms(now, taken.after), _ACTIVE_FIRST_MS * _makes_room(both))
        if was.phase is Phase.RUNNING and expected == now_ms:
            raise taken.broken(TALLIES, f"{now} ran, and waits without a pause")
    elif _no_place(taken, both) and was.request is not None:
        expected = was.request.deadline_ms
    if now.not_before_ms != expected:
        raise taken.broken(TALLIES, f"{now} by count waits until {expected}")


def _makes_room(both: Both) -> bool:
    """Whether a standby was seen dead whose place its active, which is down, is to have."""
    old, ended = both.old, both.ended
    if old is None or old.failover is None or ended is None or both.group is None:
        return False
    place = (old.failover.standby_id, old.failover.host)
    active = old.processors.get(old.failover.active_id)
    unseen = [ghost.incarnation for ghost in both.group.ghosts]
    down = active is not None and active.incarnation is None
    return down and place == (both.processor_id, ended.host) and ended not in unseen


def _judge_counters(taken: Taken, failed: dict[Role, int], removed: int) -> None:
    """By Samza's names, from the state and the commands alone."""
    expected = {
        "failed-containers": sum(failed.values()),
        "active-failures": failed[Role.ACTIVE],
        "standby-failures": failed[Role.STANDBY],
        "stalled-standbys": sum(_stalled(taken, both) for both in taken.both),
        "failed-container-placements-actions": sum(
            response.status == "FAILED" and response.uuid in _acting(taken)
            for response in taken.every(cmd.WriteResponse)
        ),
    }
    if taken.restarted:
        del expected["failed-container-placements-actions"]
    for name, count in expected.items():
        most = count if name.startswith("failed-container-") else count + removed
        if not count <= taken.counted(name) <= most:
            raise taken.broken(TALLIES, f"{name} counts {taken.counted(name)}, it is {count}")
    _judge_request_counters(taken)
    judge_failovers_counted(taken, of_actions(taken))


def _acting(taken: Taken) -> set[str]:
    """Requests that had begun, before the step or in it."""
    begun = {
        response.uuid
        for response in taken.every(cmd.WriteResponse)
        if response.status == "IN_PROGRESS"
    }
    for old, _ in taken.changed:
        if old is not None and old.action is not None:
            begun.add(old.action.ask.uuid)
    return begun


def _judge_request_counters(taken: Taken) -> None:
    """Requests of the fallbacks by name and for any host, those that expired, and failovers."""
    if isinstance(taken.event, ev.HostRegistered | ev.CoordinatorRestarted):
        return  # what is said again isn't counted again
    own, kept = of_actions(taken), set[str]()
    for _, new in taken.changed:
        kept |= request_ids(new)
    named, any_host = [0, 0], [0, 0]
    for request in taken.every(cmd.RequestResource):
        counts = any_host if request.host is None else named
        if request.request_id not in own:
            counts[1] += 1
            # One that was given up in the same step may have been an action's.
            counts[0] += request.request_id in kept
    for name, (least, most) in (
        ("preferred-host-requests", named),
        ("any-host-requests", any_host),
    ):
        if not least <= taken.counted(name) <= most:
            raise taken.broken(TALLIES, f"{name} counts {taken.counted(name)}, it is {most}")
    begun = len(taken.failovers_begun)
    if begun > taken.counted("failovers-to-standby"):
        raise taken.broken(TALLIES, "a failover to a standby isn't counted")
    if taken.counted("failovers-to-standby") > begun and not taken.lost_now:
        raise taken.broken(TALLIES, "a failover to a standby is counted, and none begins")
    expired_any = sum(_no_place(taken, both) for both in taken.both)
    if taken.counted("expired-any-host-requests") != expired_any:
        raise taken.broken(TALLIES, f"expired-any-host-requests, there are {expired_any}")
    expired_named = sum(_named_expired(taken, both) for both in taken.both)
    counted_named = taken.counted("expired-preferred-host-requests")
    # A failover that is due may end in the same step for the host that was lost.
    least_named = 0 if taken.lost_now else expired_named
    if not least_named <= counted_named <= expired_named:
        raise taken.broken(TALLIES, f"expired-preferred-host-requests, there are {expired_named}")


def _named_expired(taken: Taken, both: Both) -> bool:
    """Its own request for a host by name has expired; one of an action's isn't of the fallbacks."""
    was, now, event = both.was, both.now, taken.event
    if was is None or was.request is None or was.request.host is None:
        return False
    if was.request.allocated_host is not None or (now is not None and now.request == was.request):
        return False
    if starts_by_action(both.old, both.processor_id):
        return False
    if isinstance(event, ev.RequestExpired):
        return event.request_id == was.request.request_id
    return isinstance(event, ev.TimePassed) and was.request.deadline_ms <= taken.now_ms
