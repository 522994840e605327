"""The signals of `auto_failover`: what looks bad at one look, by what was followed before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from samza_dagster.lag import Heard, all_silent, silent_after_ms
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.orchestration.watch.cursor import FailoverCursor, Kind, Progress, Suspect
from samza_dagster.orchestration.watch.observation import LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover

COORDINATOR, JOB = "coordinator", "job"
STANDBY_BEHIND = 1_000
"""Records: a standby that is fewer behind is warm, and none that is stalled."""
LONGEST_STALL_MS, SHORTEST_REPORT_MS = 240_000, 60_000
LEADER_BEATS, SHORTEST_PATIENCE_MS = 3, 15_000
"""Signs of life that a leader may miss, and for how long at least."""


@dataclass(frozen=True)
class Look:
    """An observation, and the cursor with what it shows of the leader and of each container."""

    seen: Observation
    cursor: FailoverCursor
    settings: AutoFailover
    now_ms: int

    @classmethod
    def at(
        cls, seen: Observation, cursor: FailoverCursor, settings: AutoFailover, now_ms: int
    ) -> Self:
        """Follow up the deployment, the leader and each container that can be heard."""
        if not seen.can.shows_its_life and seen.deployment not in ("", cursor.deployment):
            # Another attempt of Samza's AM has started them all: each silence begins anew.
            cursor = replace(
                cursor,
                deployment=seen.deployment,
                replaced=cursor.deployment,
                deployment_ms=now_ms,
                progress={},
            )
        beat_ms = seen.leader.beat_ms if seen.leader is not None else None
        leader = _newest(cursor.leader or Heard(0, now_ms), beat_ms, now_ms)
        look = cls(seen, replace(cursor, leader=leader), settings, now_ms)
        progress = {c.processor_id: look._followed(c) for c in seen.containers if c.can_be_heard}
        return replace(look, cursor=replace(look.cursor, progress=progress))

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
        interval_ms = max(SHORTEST_REPORT_MS, self.seen.report_patience_ms // 3)
        return min(LONGEST_STALL_MS, interval_ms * 3 // 4)

    @cached_property
    def reports_come(self) -> bool:
        """Return whether some reports are in time: else the fault is the reporters', or the whole job's."""
        known, after_ms = self.cursor.progress.values(), self.overdue_after_ms
        return any(p.reported.mark and self.now_ms - p.reported.at_ms < after_ms for p in known)

    @cached_property
    def overdue(self) -> dict[str, int]:
        """Container without a report in time → for how long it has shown no sign, a commit included.

        None where no report comes, but by those of a job of which nothing else tells whether it runs.
        """
        known = self.cursor.progress
        may_be_gone = not self.seen.can.shows_its_life and any(
            p.reported.mark for p in known.values()
        )
        if not (self.reports_come or may_be_gone):
            return {}
        ages = {
            processor: self.now_ms - max(p.reported.at_ms, p.position.at_ms)
            for processor, p in known.items()
        }
        return {processor: ms for processor, ms in ages.items() if ms >= self.overdue_after_ms}

    def has_reported(self, processor: str, since_ms: int) -> bool:
        """Return whether a report of it is known that was new after that."""
        known = self.cursor.progress.get(processor)
        return known is not None and known.reported.mark != 0 and known.reported.at_ms > since_ms

    def signals(self) -> dict[str, Suspect]:
        """Return what looks bad now, by its key; of a dead job nothing else."""
        found = list(self._of_the_job())
        if all(one.kind != Kind.JOB_DEAD for one in found):
            found += [*self._of_the_leader(), *self._of_hosts_and_containers()]
        return {one.key: one for one in found}

    def bad_hosts(self, signals: Iterable[Suspect]) -> set[str]:
        """Return the hosts that look bad: something on them does, or they are lost with containers."""
        at = {c.processor_id: c.host for c in self.seen.containers}
        states = self.seen.host_states
        bad = {s.subject if s.kind == Kind.HOST_SICK else at.get(s.subject) for s in signals}
        return {h for h in bad | {h for h in at.values() if states.get(h or "") == LOST} if h}

    def _signal(self, kind: Kind, subject: str, why: str, *members: tuple[str, str]) -> Suspect:
        return Suspect(kind, subject, members, why, self.now_ms)

    def _of_the_job(self) -> Iterator[Suspect]:
        """Name what is wrong with the whole job; a coordinator that shows its life tells it itself."""
        seen, cursor, me = self.seen, self.cursor, (JOB, self.seen.deployment)
        why, is_unread = seen.dead, any(c.unread for c in seen.containers)
        if not (why or seen.can.shows_its_life or seen.application or is_unread):
            known = cursor.progress.values()
            why = all_silent(
                [p.reported for p in known],
                worked_ms=max((p.position.at_ms for p in known if p.position.mark), default=0),
                now_ms=self.now_ms,
                after_ms=self.silent_after_ms,
            )
        if why:
            yield self._signal(Kind.JOB_DEAD, JOB, why, me)
        elif cursor.replaced and self.now_ms - cursor.deployment_ms < self.silent_after_ms:
            why = (
                f"deployment {cursor.deployment} runs in place of {cursor.replaced}:"
                " a new attempt of the AM, or the job was deployed again"
            )
            new = self._signal(Kind.COORDINATOR_REPLACED, JOB, why, me)
            yield replace(new, was=f"deployment {cursor.replaced}")

    def _of_the_leader(self) -> Iterator[Suspect]:
        seen, heard, leader = self.seen, self.cursor.leader, self.seen.leader
        if seen.application not in ("", RUNNING):
            why = f"its YARN application is {seen.application}: no Application Master runs"
            yield self._signal(
                Kind.COORDINATOR_GONE, COORDINATOR, why, (COORDINATOR, seen.deployment)
            )
        if leader is None or heard is None:
            return
        silent_ms, every_ms = self.now_ms - heard.at_ms, leader.beat_every_ms
        if leader.ended:
            why = f"the leader of epoch {leader.epoch} ended in order and no other leads"
        elif every_ms and silent_ms >= max(SHORTEST_PATIENCE_MS, LEADER_BEATS * every_ms):
            why = (
                f"the leader of epoch {leader.epoch} on {leader.host or '?'} has shown no sign of"
                f" life for {silent_ms / 1000:.0f} s, one is due every {every_ms / 1000:g} s"
            )
        else:
            return
        yield self._signal(
            Kind.COORDINATOR_GONE, COORDINATOR, why, (COORDINATOR, str(leader.epoch))
        )

    def _of_hosts_and_containers(self) -> Iterator[Suspect]:
        suspects, overdue = self.cursor.suspects.values(), self.overdue
        mute = {p for p, ms in overdue.items() if self.reports_come and ms >= self.silent_after_ms}
        were_sick = {s.subject for s in suspects if s.kind == Kind.HOST_SICK and s.is_confirmed}
        for host, here in sorted(self.seen.on_host().items()):
            # Our own coordinator restarts a bad standby by itself.
            judged = [c for c in here if c.active or not self.seen.can.has_own_requests]
            ids = {c.processor_id for c in here}
            word_ms = self.seen.host_words.get(host, 0)
            if word_ms >= self.settings.host_silent_s * 1000:
                why = f"its agent's last word is {word_ms / 1000:.0f} s old, and it counts as alive"
            else:
                why = f"none of its {len(ids)} containers reports, and others' do"
                why = why if len(ids) > 1 and ids <= mute else ""
            if why:
                members = ((c.processor_id, c.incarnation) for c in judged)
                yield self._signal(Kind.HOST_SICK, host, why, *members)
            # Which of a host's containers falls silent first, or leaves it last, tells nothing.
            is_of_host = why or host in were_sick or (len(ids) > 1 and ids <= overdue.keys())
            for one in judged:
                name, me = one.processor_id, (one.processor_id, one.incarnation)
                if name in mute and not is_of_host:
                    silent_s = overdue[name] / 1000
                    said = f"it counts as running and has reported nothing for {silent_s:.0f} s"
                    yield self._signal(Kind.SILENT, name, said, me)
                if name not in overdue:
                    kind = Kind.FALLING_BEHIND if one.active else Kind.STANDBY_STALLED
                    if said := self._standing_still(one):
                        yield self._signal(kind, name, said, me)

    def _standing_still(self, one: ContainerSeen) -> str:
        """Return why one that runs makes no headway; empty: it does, or that isn't known."""
        known = self.cursor.progress.get(one.processor_id)
        if known is None or not known.position.mark or one.left is None or not self._is_behind(one):
            return ""
        if one.active:
            stood_ms = self.now_ms - known.stands_since_ms
            said = (
                f"it runs and has committed nothing for {stood_ms / 1000:.0f} s, with"
                f" {one.left:,} records of input before it"
            )
            return said if stood_ms >= self.settings.stuck_s * 1000 else ""
        stood_ms = known.reported.at_ms - known.stands_since_ms
        said = (
            f"it runs and has applied nothing for {stood_ms / 1000:.0f} s while its"
            f" changelog grew; it is {one.left:,} records behind"
        )
        return said if stood_ms >= self.stalled_after_ms and (one.end or 0) > known.end else ""

    def _is_behind(self, one: ContainerSeen) -> bool:
        most = self.settings.backlog_records if one.active else STANDBY_BEHIND
        return one.left is not None and one.left >= most

    def _followed(self, one: ContainerSeen) -> Progress:
        """Return a container's progress with this look; a new incarnation begins anew."""
        now_ms, end = self.now_ms, one.end or 0
        old = self.cursor.progress.get(one.processor_id)
        if old is None or old.identity != one.identity:
            old = Progress(one.identity, Heard(0, now_ms), Heard(0, now_ms), now_ms, end)
        position, is_behind = _newest(old.position, one.position, now_ms), self._is_behind(one)
        return Progress(
            old.identity,
            _newest(old.reported, one.reported_ms, now_ms),
            position,
            level_ms=old.level_ms if is_behind else now_ms,
            end=old.end if is_behind and position == old.position else end,
        )


def _newest(known: Heard, mark: int | None, now_ms: int) -> Heard:
    """Return the mark with when it was new: by any other clock that isn't known."""
    return known if mark in (None, known.mark) else Heard(mark, now_ms)
