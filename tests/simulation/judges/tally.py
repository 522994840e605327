"""Failures, tries and pauses, counted a second time from what happened to each processor."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import JobState, Phase, Processor, Role
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.failovers_counted import (
    judge_failovers_counted,
    judge_failure_open,
    of_actions,
)
from tests.simulation.judges.legality import (
    starts_by_action,
)
from tests.simulation.judges.taken import Both, Taken, request_ids
from tests.simulation.judges.violation import TALLIES

_DOWN = (Phase.WAITING, Phase.REQUESTING, Phase.RESERVED)
_LONGEST_PAUSE_MS = 30_000
_PAUSE_MS = 500


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
            _judge_new(taken, now)
            continue
        failures = int(_ended_unasked(both) or _overdue(taken, both) or _stalled(taken, both))
        failed[now.role] += failures
        if was is now:
            continue
        if now.failures != was.failures + failures:
            raise taken.broken(TALLIES, f"{both.processor_id} has failed {now.failures} times")
        if not isinstance(taken.event, ev.StandbyStalled):
            _judge_memory(taken, both, was, now, failures)
        _judge_wait(taken, both, was, now)
    if taken.changed or taken.commands:
        chronicle.premises[TALLIES] += 1
        _judge_counters(taken, failed, removed)


def _pause_ms(processor: Processor, state: JobState) -> int:
    """docs/architecture/placement.md: half a second for each try, thirty while it flaps."""
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
    same = was.incarnation is not None and was.incarnation.execution_id == event.execution_id
    return same and was.phase is Phase.RUNNING and now.phase is Phase.STOPPING


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


def _judge_new(taken: Taken, now: Processor) -> None:
    if (now.failures, now.attempts, now.failed_at_ms, now.avoid_hosts) != (0, 0, (), ()):
        raise taken.broken(TALLIES, f"{now} is new")
    if now.extra != (not isinstance(taken.event, ev.JobDeployed)) or not now.wanted:
        raise taken.broken(TALLIES, f"{now} is new, extra or not")


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
    event, incarnation = taken.event, was.incarnation
    ran = was.phase is Phase.STARTING and isinstance(event, ev.ContainerCheckedIn)
    if ran and isinstance(event, ev.ContainerCheckedIn) and incarnation is not None:
        ran = event.execution_id == incarnation.execution_id
    up = now.phase is Phase.RUNNING
    survived = was.phase is Phase.STOPPING and was.incarnation == now.incarnation
    # The action that waited for one that survived its stop may ask for its stop again.
    again = {located.processor_id for located in taken.every(cmd.WriteLocality)}
    survived &= up or (isinstance(event, ev.StopFailed) and now.processor_id in again)
    over = ran or survived or (up and was.phase in _DOWN) or _is_back(both, now)
    if over:
        attempts, avoid = 0, []
    if taken.redeployed:
        attempts, avoid, failed_at = 0, [], ()
        if now.extra:
            raise taken.broken(TALLIES, f"{now} was asked for in the deployment before")
    if now.attempts != attempts or now.avoid_hosts != tuple(avoid):
        raise taken.broken(
            TALLIES, f"{now} by count has tried {attempts} times, and avoids {avoid}"
        )
    judge_failure_open(taken, both, was, now, failures, over=over or taken.redeployed)
    if now.failed_at_ms != failed_at:
        raise taken.broken(TALLIES, f"{now} by count failed at {failed_at}")


def _is_back(both: Both, now: Processor) -> bool:
    """Its orphan was taken back, whatever was asked of it in the same step."""
    orphans = () if both.old is None else both.old.orphans
    back = {g.incarnation.execution_id for g in orphans}
    return now.incarnation is not None and now.incarnation.execution_id in back


def _judge_wait(taken: Taken, both: Both, was: Processor, now: Processor) -> None:
    """When it waits, and from when on; who has run goes on at once unless it has to pause.

    Where its group has an action or a failover, before or after, these decide.
    """
    now_ms = taken.now_ms
    if taken.restarted or taken.redeployed:
        latest = now_ms + _LONGEST_PAUSE_MS
        if (both.ended is None and was.phase is Phase.WAITING and now.phase is Phase.WAITING) and (
            now.not_before_ms != min(was.not_before_ms, latest)
        ):
            raise taken.broken(TALLIES, f"{now} waited until {was.not_before_ms}")
        return
    if any(it is None or it.action or it.failover for it in (both.old, both.group)):
        return
    pause_ms = _pause_ms(now, taken.after)
    if now.phase is not Phase.WAITING:
        skips = both.ended is not None and now.phase in _DOWN and was.phase is not Phase.RUNNING
        if skips and pause_ms > 0:
            raise taken.broken(TALLIES, f"{now} has to pause first")
        return
    if was.phase is Phase.WAITING:
        return
    if now.waiting_since_ms != now_ms:
        raise taken.broken(TALLIES, f"{now} waits since this step")
    expected = now_ms
    if both.ended is not None:
        expected += pause_ms
        if was.phase is Phase.RUNNING and expected == now_ms:
            raise taken.broken(TALLIES, f"{now} ran, and waits without a pause")
    elif _no_place(taken, both) and was.request is not None:
        expected = was.request.deadline_ms
    if now.not_before_ms != expected:
        raise taken.broken(TALLIES, f"{now} by count waits until {expected}")


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
