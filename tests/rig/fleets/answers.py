"""What is true of every standby at a moment, and what its reports so far allow anyone to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.rig.fleets.courses import Restore
from tests.rig.fleets.fleet import Fault, Fleet, Group, Process, Standby
from tests.rig.fleets.reports import report_times


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one standby task and its store; times in ms since the fleet began, by the broker's clock.

    `host` is where its newest process was started. `applied` and `reported_ms` are of that
    process's newest report, `end_then` is where the changelog ended when it came. `lag` is what
    follows from them: offsets between the two; None when it can't be known, and then
    `unknown_because` says why. `left` is the truth: records that it hasn't applied at the moment.
    `caught_up_ms` is when this process was or will be at the end, None: never.
    """

    job: str
    task: str
    container: str
    host: str
    topic: str
    partition: int
    fault: Fault
    reported_ms: int | None
    applied: int | None
    end_then: int | None
    lag: int | None
    unknown_because: str | None
    left: int
    caught_up_ms: int | None


def answers(fleet: Fleet, at_ms: int) -> Iterator[Answer]:
    """One for each standby task whose store has a changelog."""
    for group in fleet.groups:
        if group.fault is not Fault.NO_CHANGELOG:
            for standby in group.standbys:
                yield _answer(group, standby, at_ms)


def _answer(group: Group, standby: Standby, at_ms: int) -> Answer:
    changelog = standby.changelog
    begun = [one for one in standby.restores if one[0].began_ms <= at_ms]
    process, restore = begun[-1]
    reported_ms = max(report_times(process, group, at_ms + 1), default=None)
    applied = None if reported_ms is None else restore.applied_at(reported_ms)
    end_then = None if reported_ms is None else changelog.end_at(reported_ms)
    lag, why = _lag(
        group,
        standby,
        process.host,
        reported_ms,
        applied,
        at_ms,
        former=begun[-2][0] if len(begun) > 1 else None,
    )
    return Answer(
        group.job,
        standby.task,
        standby.container,
        process.host,
        group.topic,
        standby.partition,
        group.fault,
        reported_ms,
        applied,
        end_then,
        lag,
        why,
        _left(restore, process, at_ms),
        restore.caught_up_ms(),
    )


def _lag(
    group: Group,
    standby: Standby,
    host: str,
    reported_ms: int | None,
    applied: int | None,
    at_ms: int,
    *,
    former: Process | None,
) -> tuple[int | None, str | None]:
    changelog = standby.changelog
    beginning, end = changelog.beginning_at(at_ms), changelog.end_at(at_ms)
    if group.fault is Fault.LEADERLESS:
        return None, "no-leader"
    is_anew = changelog.anew_ms is not None and at_ms >= changelog.anew_ms
    if beginning >= end and not (is_anew and applied is not None):
        return 0, None
    if reported_ms is None:
        if former is None:
            return None, "no-observation"
        return None, "former-process" if former.host == host else "former-host"
    if applied is None:
        return None, "no-observation"
    if is_anew:
        return None, "beyond-end"
    return changelog.end_at(reported_ms) - max(applied + 1, beginning), None


def _left(restore: Restore, process: Process, at_ms: int) -> int:
    """Of a topic made anew it has applied nothing."""
    changelog = restore.changelog
    alive_ms = at_ms if process.ends_ms is None else min(at_ms, process.ends_ms)
    applied = restore.applied_at(alive_ms)
    if changelog.anew_ms is not None and at_ms >= changelog.anew_ms:
        applied = None
    beginning = changelog.beginning_at(at_ms)
    following = beginning if applied is None else max(applied + 1, beginning)
    return round((changelog.end_at(at_ms) - following) * changelog.records_per_offset)
