"""What looks bad at one look, and since when: the signals of `auto_failover`. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from samza_dagster.lag import Heard, all_silent, heard, silent_after_ms
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.orchestration.watch.cursor import (
    COORDINATOR_GONE,
    COORDINATOR_REPLACED,
    FALLING_BEHIND,
    FLAPPING,
    HOST_LOST,
    HOST_SICK,
    JOB_DEAD,
    OF_A_HOST,
    SILENT,
    STANDBY_DOWN,
    STANDBY_STALLED,
    FailoverCursor,
    Suspect,
    Trend,
)
from samza_dagster.orchestration.watch.observation import ALIVE, LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover

COORDINATOR, JOB = "coordinator", "job"
LEAVING = "leaving"
GROWING_COMMITS, GROWING_MS = 3, 60_000
"""Commits in turn at which a backlog has grown, over so long: a job may commit each second."""
STANDBY_DOWN_MS = 300_000
STANDBY_BEHIND = 1_000
"""Records: a standby that is fewer behind is warm, and none that is stalled."""
LONGEST_STALL_MS, SHORTEST_REPORT_MS = 240_000, 60_000
LEADER_BEATS, SHORTEST_PATIENCE_MS = 3, 15_000
"""Signs of life that a leader may miss, and for how long at least."""
TOGETHER_MS = 900_000
"""One cause shows within this: a host is lost after half a minute, a standby is stalled after four."""
_SHORT = 0xFFF


@dataclass(frozen=True)
class Look:
    """One look beside what was followed until then; `cursor` has this look's values."""

    seen: Observation
    cursor: FailoverCursor
    settings: AutoFailover
    now_ms: int

    @classmethod
    def at(
        cls, seen: Observation, cursor: FailoverCursor, settings: AutoFailover, now_ms: int
    ) -> Self:
        """Follow up reports, commits, the leader, lost hosts and each container that is odd."""
        cursor = _of_deployment(seen, cursor, now_ms)
        commits = sum(c.committed or 0 for c in seen.containers)
        marks = {_source(c): _mark(c.reported_ms) for c in seen.containers if _can_be_heard(c)}
        look = cls(
            seen,
            replace(
                cursor,
                leader=_newest(cursor.leader, _sign_of_life(seen), now_ms),
                committed=_newest(cursor.committed, commits or None, now_ms),
                heard=heard(cursor.heard, marks, now_ms),
                lost=_lost_since(seen, cursor, now_ms),
            ),
            settings,
            now_ms,
        )
        trends = {
            c.processor_id: trend
            for c in seen.containers
            if (trend := look._trend(c, cursor.trends.get(c.processor_id)))
        }
        return replace(look, cursor=replace(look.cursor, trends=trends))

    @property
    def silent_after_ms(self) -> int:
        """The age of a newest report from which on its container is silent."""
        patience_s = -(-silent_after_ms(self.seen.report_patience_ms) // 1000)
        return max(self.settings.report_silent_s, patience_s) * 1000

    @property
    def overdue_after_ms(self) -> int:
        """The age from which on a report is overdue: an interval before its container is silent."""
        return self.silent_after_ms - self.seen.report_patience_ms // 3

    @property
    def stalled_after_ms(self) -> int:
        """For how long a standby may apply nothing: two reports of one offset, nearly."""
        return min(
            LONGEST_STALL_MS,
            max(SHORTEST_REPORT_MS, self.seen.report_patience_ms // 3) * 3 // 4,
        )

    @cached_property
    def others_report(self) -> bool:
        """Whether some reports come in time: then a container without any is special.

        Where a whole job falls silent, its first container does so an interval before the last.
        """
        return any(
            h.mark and self.now_ms - h.at_ms < self.overdue_after_ms
            for h in self.cursor.heard.values()
        )

    def newest_report_ms(self, seen: ContainerSeen) -> int:
        """Return when its newest report was first seen; 0: none was."""
        known = self.cursor.heard.get(_source(seen))
        return known.at_ms if known is not None and known.mark else 0

    def signals(self) -> dict[str, Suspect]:
        """Return what looks bad now, by its key."""
        trouble = self._of_the_job()
        found = [] if trouble is None else [trouble]
        if trouble is None or trouble.kind != JOB_DEAD:
            # Nothing of a dead job can be helped but by a new deployment.
            found += [*self._of_the_leader(), *self._of_lost_hosts()]
            found += self._of_hosts_and_containers()
        return {one.key: one for one in found}

    def went_bad(self, signals: Iterable[Suspect]) -> dict[str, tuple[int, ...]]:
        """Return each host that looks bad now, and when each thing that is bad about it began."""
        found: dict[str, tuple[int, ...]] = {h: (at,) for h, at in self.cursor.lost.items()}
        for signal in signals:
            seen = self.seen.by_id.get(signal.subject)
            host = signal.subject if signal.kind == HOST_SICK else seen and seen.host
            if host:
                found[host] = (*found.get(host, ()), signal.since_ms)
        return found

    def together(self, bad: Mapping[str, tuple[int, ...]], since_ms: int) -> tuple[list[str], int]:
        """Return the hosts that went bad about then, and the number that could run something.

        What went bad at another time has causes of its own, and a host that was lost long before
        could run nothing anyway.
        """
        at_once = {
            h for h, times in bad.items() if any(abs(at - since_ms) <= TOGETHER_MS for at in times)
        }
        states = self.seen.host_states
        hosts = {*states, *(c.host for c in self.seen.containers if c.host is not None)}
        return sorted(at_once), len({h for h in hosts if states.get(h) != LOST} | at_once)

    def _signal(self, kind: str, subject: str, why: str, *members: tuple[str, str]) -> Suspect:
        return Suspect(since_ms=self.now_ms, kind=kind, subject=subject, members=members, why=why)

    def _of_the_leader(self) -> Iterator[Suspect]:
        seen, leader = self.seen.leader, self.cursor.leader
        if self.seen.application not in ("", RUNNING):
            why = f"its YARN application is {self.seen.application}: no Application Master runs"
            me = (COORDINATOR, self.seen.deployment)
        elif seen is None or leader is None:
            return
        else:
            me, silent_ms = (COORDINATOR, str(seen.epoch)), self.now_ms - leader.at_ms
            every_ms = seen.beat_every_ms
            if seen.ended:
                why = f"the leader of epoch {seen.epoch} ended in order and no other leads"
            elif every_ms and silent_ms >= max(SHORTEST_PATIENCE_MS, LEADER_BEATS * every_ms):
                why = (
                    f"the leader of epoch {seen.epoch} on {seen.host or '?'} has shown no sign of"
                    f" life for {silent_ms / 1000:.0f} s, one is due every {every_ms / 1000:g} s"
                )
            else:
                return
        yield self._signal(COORDINATOR_GONE, COORDINATOR, why, me)

    def _of_lost_hosts(self) -> Iterator[Suspect]:
        """Name hosts that YARN has lost; a coordinator that shows its life sees to them itself."""
        if self.seen.can.shows_its_life:
            return
        for host, here in sorted(self.seen.on_host().items()):
            if self.seen.host_states.get(host) == LOST:
                why = f"YARN's ResourceManager has lost it, and {len(here)} containers were there"
                members = ((c.processor_id, c.incarnation) for c in here)
                yield self._signal(HOST_LOST, host, why, *members)

    def _of_the_job(self) -> Suspect | None:
        """Name what is wrong with the whole job.

        A coordinator that shows its life tells that itself. A new deployment is named until each
        container has reported in it.
        """
        seen, cursor, me = self.seen, self.cursor, (JOB, self.seen.deployment)
        if seen.dead:
            return self._signal(JOB_DEAD, JOB, seen.dead, me)
        if seen.can.shows_its_life:
            return None
        if not seen.application and not any(c.unread for c in seen.containers):
            silent = all_silent(
                cursor.heard.values(),
                worked_ms=cursor.committed.at_ms if cursor.committed is not None else 0,
                now_ms=self.now_ms,
                after_ms=self.silent_after_ms,
            )
            if silent:
                return self._signal(JOB_DEAD, JOB, silent, me)
        since_ms = cursor.deployment_ms
        is_new = since_ms and self.now_ms - since_ms < self.silent_after_ms
        if is_new and any(h.mark and h.at_ms <= since_ms for h in cursor.heard.values()):
            why = (
                f"deployment {seen.deployment} runs for {(self.now_ms - since_ms) / 1000:.0f} s:"
                " a new attempt of the AM, or the job was deployed again"
            )
            return self._signal(COORDINATOR_REPLACED, JOB, why, me)
        return None

    def _of_hosts_and_containers(self) -> Iterator[Suspect]:
        seen = self.seen
        silent_ms = {p: self._silent_for_ms(t) for p, t in self.cursor.trends.items()}
        overdue = {p for p, ms in silent_ms.items() if ms >= self.overdue_after_ms}
        mute = {p for p in overdue if silent_ms[p] >= self.silent_after_ms}
        mute = mute if self.others_report else set[str]()
        # Where a host was bad, the container that leaves it last isn't bad by itself.
        bad = (s for s in self.cursor.suspects.values() if s.kind in OF_A_HOST and s.confirmed)
        doubtful: set[str | None] = {suspect.subject for suspect in bad}
        for host, here in sorted(seen.on_host().items()):
            if seen.host_states.get(host, ALIVE) == LOST:
                continue
            several = len(here) > 1
            if several and all(c.processor_id in overdue for c in here):
                doubtful.add(host)  # which of them fell silent first tells nothing
            word = seen.host_words.get(host)
            if word is not None and word >= self.settings.host_silent_s * 1000:
                why = f"its agent's last word is {word / 1000:.0f} s old, and it counts as alive"
            elif several and all(c.processor_id in mute for c in here):
                why = f"none of its {len(here)} containers reports, and others' do"
            else:
                continue
            doubtful.add(host)
            about = (c for c in here if c.active or seen.looks_after_standbys)
            yield self._signal(
                HOST_SICK, host, why, *((c.processor_id, c.incarnation) for c in about)
            )
        for one in seen.containers:
            if seen.host_states.get(one.host or "", ALIVE) == LOST:
                continue
            name, me = one.processor_id, (one.processor_id, one.incarnation)
            is_judged = one.active or seen.looks_after_standbys
            if name in mute and is_judged and one.host not in doubtful:
                silent_s = silent_ms[name] / 1000
                why = f"it counts as running and has reported nothing for {silent_s:.0f} s"
                yield self._signal(SILENT, name, why, me)
            # Samza's AM says of no container that it runs.
            runs = seen.can.shows_its_life or name not in overdue
            for kind, why in self._of_a_container(one, runs=runs):
                yield self._signal(kind, name, why, me)

    def _of_a_container(self, one: ContainerSeen, *, runs: bool) -> Iterator[tuple[str, str]]:
        if one.flapping:
            yield FLAPPING, "it fails again and again, and is started at longer intervals"
        trend = self.cursor.trends.get(one.processor_id)
        if trend is None:
            return
        if not one.runs:
            down_ms = self.now_ms - (trend.down_ms or self.now_ms)
            if down_ms >= STANDBY_DOWN_MS:
                yield STANDBY_DOWN, f"it is {one.state} and hasn't run for {down_ms / 1000:.0f} s"
        elif one.active and runs and self._is_deep(one):
            stuck_ms, grown_ms = self.now_ms - trend.moved_ms, trend.moved_ms - trend.grows_ms
            if trend.committed is not None and stuck_ms >= self.settings.stuck_s * 1000:
                yield (
                    FALLING_BEHIND,
                    f"it runs and has committed nothing for {stuck_ms / 1000:.0f} s, with"
                    f" {one.backlog:,} records of input before it",
                )
            elif trend.growths >= GROWING_COMMITS and grown_ms >= GROWING_MS:
                yield (
                    FALLING_BEHIND,
                    f"it runs and its input grew at {trend.growths} commits in turn, for"
                    f" {grown_ms / 1000:.0f} s, to {one.backlog:,} records",
                )
        elif self._is_behind(one) and trend.applied is not None:
            stood_ms = (self.newest_report_ms(one) or self.now_ms) - trend.stood_ms
            if (one.end or 0) > trend.end and stood_ms >= self.stalled_after_ms:
                yield (
                    STANDBY_STALLED,
                    f"it runs and has applied nothing for {stood_ms / 1000:.0f} s while its"
                    f" changelog grew; it is {one.behind:,} records behind",
                )

    def _is_deep(self, one: ContainerSeen) -> bool:
        return one.backlog is not None and one.backlog >= self.settings.backlog_records

    def _is_behind(self, one: ContainerSeen) -> bool:
        """Return whether a standby is cold; our own coordinator restarts one that is stalled."""
        is_judged = self.seen.looks_after_standbys and not one.active
        return is_judged and one.behind is not None and one.behind >= STANDBY_BEHIND

    def _silent_since_ms(self, one: ContainerSeen) -> int | None:
        """Return since when it has reported nothing; None: not for long, or that can't be told.

        It can't where no container has ever reported, or where none does and the coordinator
        tells itself which ones live.
        """
        reports = self.cursor.heard.values()
        may_be_gone = not self.seen.can.shows_its_life and any(h.mark for h in reports)
        if not _can_be_heard(one) or not (may_be_gone or self.others_report):
            return None
        at_ms = self.cursor.heard[_source(one)].at_ms
        return at_ms if self.now_ms - at_ms >= self.silent_after_ms // 2 else None

    def _silent_for_ms(self, trend: Trend) -> int:
        """Return for how long it has been silent; 0 while it commits: its reporter is broken."""
        commits = trend.moves and self.now_ms - trend.moved_ms < self.silent_after_ms
        return 0 if trend.silent_ms is None or commits else self.now_ms - trend.silent_ms

    def _trend(self, one: ContainerSeen, old: Trend | None) -> Trend | None:
        incarnation = zlib.crc32(one.identity.encode())
        if old is None or old.incarnation != incarnation:
            old = Trend(incarnation)
        if not one.runs:
            is_odd = not one.active and one.state != LEAVING
            down_ms = self.now_ms if old.down_ms is None else old.down_ms
            return Trend(incarnation, down_ms=down_ms) if is_odd else None
        silent_ms, deep = self._silent_since_ms(one), self._is_deep(one)
        if silent_ms is None and not deep and not self._is_behind(one):
            return None
        new = replace(old, silent_ms=silent_ms, down_ms=None)
        if one.committed not in (None, old.committed) and one.backlog is not None:
            grew = old.committed is not None and deep and one.backlog > old.backlog
            new = replace(
                new,
                committed=one.committed,
                moved_ms=self.now_ms,
                moves=old.moves + (old.committed is not None),
                backlog=one.backlog,
                growths=old.growths + 1 if grew else 0,
                grows_ms=old.grows_ms if grew else self.now_ms,
            )
        if one.applied not in (None, old.applied):
            new = replace(new, applied=one.applied, stood_ms=self.now_ms, end=one.end or 0)
        return new


def _of_deployment(seen: Observation, cursor: FailoverCursor, now_ms: int) -> FailoverCursor:
    """Begin each silence anew where Samza's AM runs another deployment by now."""
    if seen.can.shows_its_life or seen.deployment in ("", cursor.deployment):
        return cursor
    if not cursor.deployment:
        return replace(cursor, deployment=seen.deployment)
    reports = {source: Heard(h.mark, now_ms) for source, h in cursor.heard.items()}
    return replace(
        cursor, deployment=seen.deployment, deployment_ms=now_ms, heard=reports, trends={}
    )


def _newest(known: Heard | None, mark: int | None, now_ms: int) -> Heard:
    return heard({} if known is None else {"": known}, {"": mark}, now_ms)[""]


def _sign_of_life(seen: Observation) -> int | None:
    """Tell one sign of life of the leader from another: their age isn't known by its host's clock."""
    leader = seen.leader
    return None if leader is None else zlib.crc32(f"{leader.epoch} {leader.beat_ms}".encode())


def _lost_since(seen: Observation, cursor: FailoverCursor, now_ms: int) -> dict[str, int]:
    """Return since when each lost host is; 0: for long.

    Where nobody looked before and its agent's last word isn't known, a host counts as lost just
    now while a container is on it: the coordinator moves them as soon as it can.
    """
    blind = not cursor.looked_ms or now_ms - cursor.looked_ms > TOGETHER_MS
    used = {c.host for c in seen.containers}
    found: dict[str, int] = {}
    for host, state in seen.host_states.items():
        word = seen.host_words.get(host)
        if state == LOST and host in cursor.lost:
            found[host] = cursor.lost[host]
        elif state == LOST and word is not None:
            found[host] = now_ms - word
        elif state == LOST:
            found[host] = 0 if blind and host not in used else now_ms
    return found


def _can_be_heard(one: ContainerSeen) -> bool:
    """Return whether it runs, and its reports aren't where nothing can be read."""
    return one.runs and (one.reported_ms is not None or not one.unread)


def _source(one: ContainerSeen) -> str:
    """Name a container as one that reports: a new incarnation has its own silence."""
    return f"{one.processor_id} {zlib.crc32(one.identity.encode()) & _SHORT}"


def _mark(reported_ms: int | None) -> int | None:
    """Tell a report from the one before, in few digits: the cursor has one of each container."""
    return None if reported_ms is None else 1 + zlib.crc32(str(reported_ms).encode()) % _SHORT
