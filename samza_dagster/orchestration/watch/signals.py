"""What looks bad at one look, and since when it has: the signals of `auto_failover`. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from samza_dagster.lag import Heard
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.orchestration.watch.hosts import lost_signals, lost_since
from samza_dagster.orchestration.watch.hysteresis import is_another_look
from samza_dagster.orchestration.watch.memory import (
    COORDINATOR_GONE,
    FALLING_BEHIND,
    FLAPPING,
    HOST_SICK,
    JOB_DEAD,
    MOST_MEMBERS,
    SILENT,
    STANDBY_DOWN,
    STANDBY_STALLED,
    LeaderMark,
    Memory,
    Signal,
    Suspect,
    Trend,
    weight,
)
from samza_dagster.orchestration.watch.observation import ALIVE, LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.outcomes import as_it_is, awaits_report, with_news
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.silence import (
    committed,
    in_time_ms,
    job_trouble,
    newest_report_ms,
    others_report,
    reports_of,
    silent_for_ms,
    silent_since,
)

COORDINATOR = "coordinator"
JOB = "job"
LEAVING = "leaving"
_BY_LAG = (FALLING_BEHIND, SILENT, STANDBY_STALLED)
SHORTEST_PATIENCE_MS = 15_000
MOST_FOLLOWED = 300
"""Signals that take turns in being told: fewer than are remembered as told, so that none is told twice."""


@dataclass(frozen=True, slots=True)
class JudgedSignals:
    """The memory after a look. `signals` are this look's, `ended` were confirmed or told before.

    `nobody_reads`: that a leader lives isn't known, so that a request may be read much later.
    """

    memory: Memory
    signals: tuple[Signal, ...]
    ended: tuple[Suspect, ...]
    nobody_reads: bool = False


def judge(
    observation: Observation, memory: Memory, settings: AutoFailover, now_ms: int
) -> JudgedSignals:
    """Takes one look into account."""
    settings = settings.for_reports(
        observation.report_patience_ms, ours=observation.can.has_own_requests
    )
    counts, rule = is_another_look(memory.looked_ms, now_ms), settings.hysteresis
    leader = _leader(observation, memory, now_ms)
    memory = _of_deployment(observation, memory, now_ms)
    memory = replace(memory, committed=committed(observation, memory, now_ms))
    reports = reports_of(observation, memory, now_ms)
    since = silent_since(observation, reports, settings, now_ms)
    former = memory.trends
    if now_ms < memory.looked_ms:
        former = {processor: trend.by_clock(now_ms) for processor, trend in former.items()}
    trends = {
        c.processor_id: trend
        for c in observation.containers
        if (trend := _trend(c, former.get(c.processor_id), since, settings, now_ms))
    }
    signals = _signals(observation, trends, reports, memory, leader, settings, now_ms)
    suspects: dict[str, Suspect] = {}
    ended: list[Suspect] = []
    by_key = {signal.key: signal for signal in signals}
    judged_dead = any(signal.kind == JOB_DEAD for signal in signals)
    if judged_dead and observation.dead and not observation.can.shows_its_life:
        # YARN's states of an end are final
        rule = replace(rule, looks=1, for_ms=0)
    followed = _followed(by_key, memory)
    for key in followed:
        signal, old = by_key[key], memory.suspects.get(key)
        if old is None:
            old = Suspect(
                signal.kind, signal.subject, signal.members[:MOST_MEMBERS], since_ms=now_ms
            )
            old = replace(old, was=as_it_is(old, observation))
        bad = rule.after_bad(old, now_ms, counts=counts)
        bad = replace(bad, members=signal.members[:MOST_MEMBERS], why=signal.why, well_ms=0)
        suspects[key] = with_news(bad, observation, now_ms)
    for key, old in memory.suspects.items():
        if key in by_key or judged_dead or _is_unknown(old, observation):
            suspects.setdefault(key, old)
            continue
        if awaits_report(old, observation, reports, memory):
            suspects[key] = with_news(old, observation, now_ms)
            continue
        good = rule.after_good(old, counts=counts)
        good = with_news(replace(good, well_ms=old.well_ms or now_ms), observation, now_ms)
        if not rule.is_over(good):
            suspects[key] = good
        elif good.confirmed or good.reported:
            ended.append(good)
    after = replace(
        memory,
        looked_ms=now_ms if counts else memory.looked_ms,
        suspects=suspects,
        trends=trends,
        leader=leader,
        looks=memory.looks + 1,
        lost=lost_since(observation, memory, now_ms),
        heard=reports,
    ).bounded()
    return JudgedSignals(
        replace(after, left_out=_left_out(by_key, after)),
        signals,
        tuple(ended),
        _nobody_reads(observation, leader, signals, settings, now_ms),
    )


def _is_unknown(suspect: Suspect, observation: Observation) -> bool:
    """Whether it can't be told now that it looks well again."""
    seen = observation.by_id.get(suspect.subject)
    if seen is None:
        return False
    # It reports, and its changelog isn't there to hold that against.
    no_lag = suspect.kind == STANDBY_STALLED and seen.behind is None and seen.applied is not None
    return no_lag or (seen.unread and suspect.kind in _BY_LAG)


def _followed(signals: Mapping[str, Signal], memory: Memory) -> list[str]:
    """Keys of those that may become suspects: of equal weight those that are."""
    order = sorted(signals, key=lambda k: (weight(signals[k].kind), k not in memory.suspects, k))
    return order[:MOST_FOLLOWED]


def _left_out(signals: Mapping[str, Signal], memory: Memory) -> int:
    """What looks bad and isn't remembered: whole signals, and members of hosts."""
    members = (max(0, len(s.members) - MOST_MEMBERS) for s in signals.values())
    return len(signals.keys() - memory.suspects.keys()) + sum(members)


def _nobody_reads(
    observation: Observation,
    leader: LeaderMark | None,
    signals: tuple[Signal, ...],
    settings: AutoFailover,
    now_ms: int,
) -> bool:
    if any(signal.kind in (COORDINATOR_GONE, JOB_DEAD) for signal in signals):
        return True
    if leader is None or observation.leader is None or not observation.leader.beat_every_ms:
        return False
    return now_ms - leader.seen_ms >= _leader_patience_ms(
        observation.leader.beat_every_ms, settings
    )


def _leader_patience_ms(beat_every_ms: int, settings: AutoFailover) -> int:
    return max(SHORTEST_PATIENCE_MS, settings.leader_beats * beat_every_ms)


def _of_deployment(observation: Observation, memory: Memory, now_ms: int) -> Memory:
    """The same where Samza's AM runs another deployment by now: its silences count from now."""
    if observation.can.shows_its_life or observation.deployment in ("", memory.deployment):
        return memory
    if not memory.deployment:
        return replace(memory, deployment=observation.deployment)
    reports = {source: Heard(h.mark, now_ms) for source, h in memory.heard.items()}
    return replace(
        memory, deployment=observation.deployment, deployment_ms=now_ms, heard=reports, trends={}
    )


def _leader(observation: Observation, memory: Memory, now_ms: int) -> LeaderMark | None:
    seen, old = observation.leader, memory.leader
    if seen is None:
        return None
    new = LeaderMark(seen.epoch, seen.beat_ms or 0, observation.leader_mark, now_ms)
    if old is None or new != replace(old, seen_ms=now_ms):
        return new
    return replace(old, seen_ms=min(old.seen_ms, now_ms))


def _trend(
    seen: ContainerSeen,
    old: Trend | None,
    silent_since: Mapping[str, int],
    settings: AutoFailover,
    now_ms: int,
) -> Trend | None:
    """How it goes; None while nothing is odd, so that little is remembered."""
    incarnation = zlib.crc32(seen.identity.encode())
    if old is None or old.incarnation != incarnation:
        old = Trend(incarnation)
    if not seen.runs:
        odd = not seen.active and seen.state != LEAVING
        down = now_ms if old.down_ms is None else old.down_ms
        return Trend(incarnation, down_ms=down) if odd else None
    silent = silent_since.get(seen.processor_id)
    deep = seen.backlog is not None and seen.backlog >= settings.backlog_records
    behind = seen.behind is not None and seen.behind >= settings.standby_behind_records
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
    observation: Observation,
    trends: Mapping[str, Trend],
    reports: Mapping[str, Heard],
    memory: Memory,
    leader: LeaderMark | None,
    settings: AutoFailover,
    now_ms: int,
) -> tuple[Signal, ...]:
    trouble = job_trouble(observation, reports, memory, settings, now_ms)
    found = [*_leader_signals(observation, leader, settings, now_ms), *lost_signals(observation)]
    if trouble is not None:
        kind, why = trouble
        found.append(Signal(kind, JOB, ((JOB, observation.deployment),), why))
        if kind == JOB_DEAD:  # nothing of it can be helped but by a new deployment
            return tuple(found[-1:])
    silent_ms = {p: silent_for_ms(trend, settings, now_ms) for p, trend in trends.items()}
    overdue = {p for p, ms in silent_ms.items() if ms >= in_time_ms(observation, settings)}
    others = others_report(observation, reports, settings, now_ms)
    mute = {p for p in overdue if others and silent_ms[p] >= settings.report_silent_s * 1000}
    doubtful: set[str | None] = set()
    for host, here in sorted(observation.on_host().items()):
        if observation.host_states.get(host, ALIVE) == LOST:
            continue
        if len(here) > 1 and all(c.processor_id in overdue for c in here):
            doubtful.add(host)  # which of them fell silent first tells nothing
        word = observation.host_words.get(host)
        if word is not None and word >= settings.host_silent_s * 1000:
            why = f"its agent's last word is {word / 1000:.0f} s old, and it counts as alive"
        elif len(here) > 1 and all(c.processor_id in mute for c in here):
            why = f"none of its {len(here)} containers reports, and others' do"
        else:
            continue
        doubtful.add(host)
        about = (c for c in here if c.active or not observation.can.tells_what_runs)
        members = tuple((c.processor_id, c.incarnation) for c in about)
        found.append(Signal(HOST_SICK, host, members, why))
    for seen in observation.containers:
        if observation.host_states.get(seen.host or "", ALIVE) == LOST:
            continue
        ident = seen.processor_id
        if ident in mute and seen.host not in doubtful:
            silent_s = silent_ms[ident] / 1000
            why = f"it counts as running and has reported nothing for {silent_s:.0f} s"
            found.append(Signal(SILENT, ident, ((ident, seen.incarnation),), why))
        reported_ms = newest_report_ms(seen, reports) or now_ms
        # Samza's AM says of none that it runs.
        runs = observation.can.shows_its_life or ident not in overdue
        found += _container_signals(
            seen, trends.get(ident), reported_ms, settings, now_ms, runs=runs
        )
    return tuple(found)


def _container_signals(
    seen: ContainerSeen,
    trend: Trend | None,
    reported_ms: int,
    settings: AutoFailover,
    now_ms: int,
    *,
    runs: bool,
) -> list[Signal]:
    found: list[Signal] = []

    def say(kind: str, why: str) -> None:
        me = ((seen.processor_id, seen.incarnation),)
        found.append(Signal(kind, seen.processor_id, me, why))

    if seen.flapping:
        say(FLAPPING, "it fails again and again, and is started at longer intervals")
    if trend is None:
        return found
    if not seen.runs:
        down_s = (now_ms - (trend.down_ms or now_ms)) / 1000
        if down_s * 1000 >= settings.standby_down_s * 1000:
            say(STANDBY_DOWN, f"it is {seen.state} and hasn't run for {down_s:.0f} s")
        return found
    deep = seen.backlog is not None and seen.backlog >= settings.backlog_records
    if seen.active and runs and deep:
        stuck_s = (now_ms - trend.moved_ms) / 1000
        grown_ms = trend.moved_ms - trend.grows_ms
        if trend.committed is not None and stuck_s * 1000 >= settings.stuck_s * 1000:
            say(
                FALLING_BEHIND,
                f"it runs and has committed nothing for {stuck_s:.0f} s, with"
                f" {seen.backlog:,} records of input before it",
            )
        elif trend.growths >= settings.growing_commits and grown_ms >= settings.growing_s * 1000:
            say(
                FALLING_BEHIND,
                f"it runs and its input grew at {trend.growths} commits in turn, for"
                f" {grown_ms / 1000:.0f} s, to {seen.backlog:,} records",
            )
    if not seen.active and seen.behind is not None and trend.applied is not None:
        stood_s = (reported_ms - trend.stood_ms) / 1000
        grew = (seen.end or 0) > trend.end
        if (
            seen.behind >= settings.standby_behind_records
            and grew
            and stood_s * 1000 >= settings.standby_stalled_s * 1000
        ):
            say(
                STANDBY_STALLED,
                f"it runs and has applied nothing for {stood_s:.0f} s while its changelog grew;"
                f" it is {seen.behind:,} records behind",
            )
    return found


def _leader_signals(
    observation: Observation, leader: LeaderMark | None, settings: AutoFailover, now_ms: int
) -> list[Signal]:
    seen = observation.leader
    if observation.application not in ("", RUNNING):
        me = ((COORDINATOR, observation.deployment),)
        why = f"its YARN application is {observation.application}: no Application Master runs"
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
    if silent_ms < _leader_patience_ms(seen.beat_every_ms, settings):
        return []
    why = (
        f"the leader of epoch {seen.epoch} on {seen.host or '?'} has shown no sign of life for"
        f" {silent_ms / 1000:.0f} s, one is due every {seen.beat_every_ms / 1000:g} s"
    )
    return [Signal(COORDINATOR_GONE, COORDINATOR, me, why)]
