"""What looks bad at one look, and since when it has: the signals of `auto_failover`. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from samza_dagster.orchestration.failover.lost_hosts import lost_signals, lost_since
from samza_dagster.orchestration.failover.memory import (
    COORDINATOR_GONE,
    FLAPPING,
    HOST_SICK,
    JOB_DEAD,
    MOST_MEMBERS,
    OF_NO_CONTAINER,
    STANDBY_DOWN,
    LeaderMark,
    Memory,
    Signal,
    Suspect,
    Trend,
    weight,
)
from samza_dagster.orchestration.failover.pace import SAME_LOOK_MS, Limits
from samza_dagster.orchestration.failover.sight import ALIVE, LOST, ContainerSeen, Sight
from samza_dagster.readiness import Heard, heard

FALLING_BEHIND = "falling-behind"
SILENT = "silent"
STANDBY_STANDS = "standby-stands"
COORDINATOR = "coordinator"
JOB = "job"
LEAVING = "leaving"
_BY_LAG = (FALLING_BEHIND, SILENT, STANDBY_STANDS)
RUNS = "RUNNING"
"""YARN's word on an application that has an Application Master."""
SHORTEST_PATIENCE_MS = 15_000
_SHORT = 0xFFF
MOST_FOLLOWED = 300
"""Signals that take turns in being told: fewer than are remembered as told, so that none is told twice."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The memory after a look. `signals` are this look's, `ended` were confirmed or told before.

    `nobody_reads`: that a leader lives isn't known, so that a request may be read much later.
    """

    memory: Memory
    signals: tuple[Signal, ...]
    ended: tuple[Suspect, ...]
    nobody_reads: bool = False


def judge(sight: Sight, memory: Memory, limits: Limits, now_ms: int) -> Judged:
    """Takes one look into account."""
    counts = not 0 <= now_ms - memory.looked_ms < SAME_LOOK_MS
    leader = _leader(sight, memory, now_ms)
    reports = heard(
        {source: Heard(h.mark, min(h.at_ms, now_ms)) for source, h in memory.heard.items()},
        {_source(c): _mark(c.reported_ms) for c in sight.containers if _can_be_heard(c)},
        now_ms,
    )
    since = _silent_since(sight, reports, limits, now_ms)
    former = memory.trends
    if now_ms < memory.looked_ms:
        former = {processor: trend.by_clock(now_ms) for processor, trend in former.items()}
    trends = {
        c.processor_id: trend
        for c in sight.containers
        if (trend := _trend(c, former.get(c.processor_id), since, limits, now_ms))
    }
    dead = sight.dead or _all_silent(sight, reports, limits, now_ms)
    signals = _signals(sight, trends, leader, limits, now_ms)
    if dead:  # nothing of it can be helped but by a new deployment
        signals = (Signal(JOB_DEAD, JOB, ((JOB, sight.deployment),), dead),)
    suspects: dict[str, Suspect] = {}
    ended: list[Suspect] = []
    by_key = {signal.key: signal for signal in signals}
    followed = _followed(by_key, memory)
    for key in followed:
        suspects[key] = _bad(memory.suspects.get(key), by_key[key], limits, now_ms, counts)
    for key, old in memory.suspects.items():
        if key in by_key or dead or _is_unknown(old, sight):
            suspects.setdefault(key, old)
            continue
        good = replace(old, good=old.good + counts)
        if good.good < limits.good_looks:
            suspects[key] = good
        elif good.confirmed or good.told:
            ended.append(good)
    after = replace(
        memory,
        looked_ms=now_ms if counts else memory.looked_ms,
        suspects=suspects,
        trends=trends,
        leader=leader,
        looks=memory.looks + 1,
        lost=lost_since(sight, memory, now_ms),
        heard=reports,
    ).bounded()
    return Judged(
        replace(after, left_out=_left_out(by_key, after)),
        signals,
        tuple(ended),
        _nobody_reads(sight, leader, signals, limits, now_ms),
    )


def _is_unknown(suspect: Suspect, sight: Sight) -> bool:
    """Whether it can't be told now that it looks well again."""
    seen = sight.by_id.get(suspect.subject)
    return seen is not None and seen.unread and suspect.kind in _BY_LAG


def _followed(signals: Mapping[str, Signal], memory: Memory) -> list[str]:
    """Keys of those that may become suspects: of equal weight those that are."""
    order = sorted(signals, key=lambda k: (weight(signals[k].kind), k not in memory.suspects, k))
    return order[:MOST_FOLLOWED]


def _left_out(signals: Mapping[str, Signal], memory: Memory) -> int:
    """What looks bad and isn't remembered: whole signals, and members of hosts."""
    members = (max(0, len(s.members) - MOST_MEMBERS) for s in signals.values())
    return len(signals.keys() - memory.suspects.keys()) + sum(members)


def _nobody_reads(
    sight: Sight,
    leader: LeaderMark | None,
    signals: tuple[Signal, ...],
    limits: Limits,
    now_ms: int,
) -> bool:
    if any(signal.kind in OF_NO_CONTAINER for signal in signals):
        return True
    if leader is None or sight.leader is None or not sight.leader.beat_every_ms:
        return False
    return now_ms - leader.seen_ms >= _leader_patience_ms(sight.leader.beat_every_ms, limits)


def _leader_patience_ms(beat_every_ms: int, limits: Limits) -> int:
    return max(SHORTEST_PATIENCE_MS, limits.leader_beats * beat_every_ms)


def _bad(old: Suspect | None, signal: Signal, limits: Limits, now_ms: int, counts: bool) -> Suspect:
    looks = old.bad_ms if old is not None else ()
    if counts or not looks:
        looks = (*looks, now_ms)[-limits.bad_looks :]
    within_ms = max(looks) - min(looks)  # the clock may have been set back between them
    often = len(looks) >= limits.bad_looks and within_ms <= limits.bad_within_ms
    return Suspect(
        kind=signal.kind,
        subject=signal.subject,
        members=signal.members[:MOST_MEMBERS],
        since_ms=old.since_ms if old is not None else now_ms,
        bad_ms=looks,
        confirmed=often or (old is not None and old.confirmed),
        why=signal.why,
        told=old is not None and old.told,
        after_ms=old.after_ms if old is not None else 0,
    )


def _leader(sight: Sight, memory: Memory, now_ms: int) -> LeaderMark | None:
    seen, old = sight.leader, memory.leader
    if seen is None:
        return None
    if old is not None and (old.epoch, old.beat_ms, old.mark) == (
        seen.epoch,
        seen.beat_ms,
        seen.mark,
    ):
        return replace(old, seen_ms=min(old.seen_ms, now_ms))
    return LeaderMark(seen.epoch, seen.beat_ms, seen.mark, now_ms)


def _can_be_heard(seen: ContainerSeen) -> bool:
    """It runs, and its reports aren't where nothing can be read: its silence counts anew after that."""
    return seen.runs and (seen.reported_ms is not None or not seen.unread)


def _source(seen: ContainerSeen) -> str:
    """A container as one that reports: a new incarnation has its own silence."""
    return f"{seen.processor_id} {zlib.crc32(seen.incarnation.encode()) & _SHORT}"


def _mark(reported_ms: int | None) -> int | None:
    """What tells a report from the one before; few digits, for the cursor has one of each."""
    return None if reported_ms is None else 1 + zlib.crc32(str(reported_ms).encode()) % _SHORT


def _silent_since(
    sight: Sight, reports: Mapping[str, Heard], limits: Limits, now_ms: int
) -> dict[str, int]:
    """Container → since when it hasn't reported, for those that are followed for that.

    None where nobody has reported lately: then one that doesn't is nothing special.
    """
    if not any(h.mark and now_ms - h.at_ms < limits.report_silent_ms for h in reports.values()):
        return {}
    return {
        c.processor_id: at_ms
        for c in sight.containers
        if _can_be_heard(c)
        and now_ms - (at_ms := reports[_source(c)].at_ms) >= limits.report_silent_ms // 2
    }


def _all_silent(sight: Sight, reports: Mapping[str, Heard], limits: Limits, now_ms: int) -> str:
    """For how long all that reported has been silent, where nobody says that the job runs.

    Samza's own Application Master shows no other sign of life in the coordinator stream.
    """
    known = [h.at_ms for h in reports.values() if h.mark]
    unread = any(c.unread for c in sight.containers)
    if sight.ours or sight.application or unread or not known:
        return ""
    silent_ms = now_ms - max(known)
    if silent_ms < max(limits.report_silent_ms, sight.report_patience_ms):
        return ""
    return (
        f"all {len(known)} containers that reported have been silent for {silent_ms / 1000:.0f} s"
    )


def _trend(
    seen: ContainerSeen,
    old: Trend | None,
    silent_since: Mapping[str, int],
    limits: Limits,
    now_ms: int,
) -> Trend | None:
    """How it goes; None while nothing is odd, so that little is remembered."""
    incarnation = zlib.crc32(seen.incarnation.encode())
    if old is None or old.incarnation != incarnation:
        old = Trend(incarnation)
    if not seen.runs:
        odd = not seen.active and seen.state != LEAVING
        down = now_ms if old.down_ms is None else old.down_ms
        return Trend(incarnation, down_ms=down) if odd else None
    silent = silent_since.get(seen.processor_id)
    deep = seen.backlog is not None and seen.backlog >= limits.backlog_records
    behind = seen.behind is not None and seen.behind >= limits.standby_behind_records
    if silent is None and not deep and not behind:
        return None
    new = replace(old, silent_ms=silent, down_ms=None)
    if seen.committed is not None and seen.backlog is not None and seen.committed != old.committed:
        grew = old.committed is not None and deep and seen.backlog > old.backlog
        new = replace(
            new,
            committed=seen.committed,
            moved_ms=now_ms,
            backlog=seen.backlog,
            growths=old.growths + 1 if grew else 0,
            grows_ms=old.grows_ms if grew else now_ms,
            moves=old.moves + (old.committed is not None),
        )
    if seen.applied is not None and seen.applied != old.applied:
        new = replace(new, applied=seen.applied, stood_ms=now_ms, end=seen.end or 0)
    return new


def _signals(
    sight: Sight,
    trends: Mapping[str, Trend],
    leader: LeaderMark | None,
    limits: Limits,
    now_ms: int,
) -> tuple[Signal, ...]:
    found = [*_leader_signals(sight, leader, limits, now_ms), *lost_signals(sight)]
    host_of = {c.processor_id: c.host for c in sight.containers}
    mute: set[str] = set()
    for seen in sight.containers:
        trend = trends.get(seen.processor_id)
        why = None if trend is None else _silence(seen, trend, limits, now_ms)
        if why is not None:
            mute.add(seen.processor_id)
    sick: set[str] = set()
    for host, here in sorted(sight.on_host().items()):
        if sight.host_states.get(host, ALIVE) == LOST:
            continue
        word = sight.host_words.get(host)
        if word is not None and word >= limits.host_silent_ms:
            why = f"its agent's last word is {word / 1000:.0f} s old, and it counts as alive"
        elif len(here) > 1 and all(c.processor_id in mute for c in here):
            why = f"none of its {len(here)} containers reports, and others' do"
        else:
            continue
        sick.add(host)
        members = tuple((c.processor_id, c.incarnation) for c in here if c.active)
        found.append(Signal(HOST_SICK, host, members, why))
    for seen in sight.containers:
        if sight.host_states.get(seen.host or "", ALIVE) == LOST:
            continue
        found += _container_signals(seen, trends.get(seen.processor_id), limits, now_ms)
    return tuple(s for s in found if s.kind != SILENT or host_of.get(s.subject) not in sick)


def _container_signals(
    seen: ContainerSeen, trend: Trend | None, limits: Limits, now_ms: int
) -> list[Signal]:
    found: list[Signal] = []

    def say(kind: str, why: str) -> None:
        me = ((seen.processor_id, seen.incarnation),)
        found.append(Signal(kind, seen.processor_id, me, why))

    if seen.flapping:
        say(FLAPPING, "it fails again and again, and is started at longer intervals")
    if trend is None:
        return found
    silence = _silence(seen, trend, limits, now_ms)
    if silence is not None:
        say(SILENT, silence)
    if not seen.runs:
        down_s = (now_ms - (trend.down_ms or now_ms)) / 1000
        if down_s * 1000 >= limits.standby_down_ms:
            say(STANDBY_DOWN, f"it is {seen.state} and hasn't run for {down_s:.0f} s")
        return found
    if seen.active and seen.backlog is not None and seen.backlog >= limits.backlog_records:
        stuck_s = (now_ms - trend.moved_ms) / 1000
        grown_ms = trend.moved_ms - trend.grows_ms
        if trend.committed is not None and stuck_s * 1000 >= limits.stuck_ms:
            say(
                FALLING_BEHIND,
                f"it runs and has committed nothing for {stuck_s:.0f} s, with"
                f" {seen.backlog:,} records of input before it",
            )
        elif trend.growths >= limits.growing_commits and grown_ms >= limits.growing_ms:
            say(
                FALLING_BEHIND,
                f"it runs and its input grew at {trend.growths} commits in turn, for"
                f" {grown_ms / 1000:.0f} s, to {seen.backlog:,} records",
            )
    if not seen.active and seen.behind is not None and trend.applied is not None:
        stood_s = (now_ms - trend.stood_ms) / 1000
        grew = (seen.end or 0) > trend.end
        if (
            seen.behind >= limits.standby_behind_records
            and grew
            and stood_s * 1000 >= limits.standby_stands_ms
        ):
            say(
                STANDBY_STANDS,
                f"it runs and has applied nothing for {stood_s:.0f} s while its changelog grew;"
                f" it is {seen.behind:,} records behind",
            )
    return found


def _silence(seen: ContainerSeen, trend: Trend, limits: Limits, now_ms: int) -> str | None:
    """Why it counts as mute; one that goes on committing has only a broken reporter."""
    if not seen.runs or trend.silent_ms is None:
        return None
    silent_ms = now_ms - trend.silent_ms
    if silent_ms < limits.report_silent_ms:
        return None
    if trend.moves and trend.moved_ms > trend.silent_ms:
        return None
    return f"it counts as running and has reported nothing for {silent_ms / 1000:.0f} s"


def _leader_signals(
    sight: Sight, leader: LeaderMark | None, limits: Limits, now_ms: int
) -> list[Signal]:
    seen = sight.leader
    if sight.application not in ("", RUNS):
        me = ((COORDINATOR, sight.deployment),)
        why = f"its YARN application is {sight.application}: no Application Master runs"
        return [Signal(COORDINATOR_GONE, COORDINATOR, me, why)]
    if seen is None or leader is None:
        return []
    me = ((COORDINATOR, str(seen.epoch)),)
    if seen.ended:
        why = f"the leader of epoch {seen.epoch} ended in order and no other leads"
        return [Signal(COORDINATOR_GONE, COORDINATOR, me, why)]
    if not seen.beat_every_ms:
        return []
    silent_ms = now_ms - leader.seen_ms
    if silent_ms < _leader_patience_ms(seen.beat_every_ms, limits):
        return []
    why = (
        f"the leader of epoch {seen.epoch} on {seen.host or '?'} has shown no sign of life for"
        f" {silent_ms / 1000:.0f} s, one is due every {seen.beat_every_ms / 1000:g} s"
    )
    return [Signal(COORDINATOR_GONE, COORDINATOR, me, why)]
