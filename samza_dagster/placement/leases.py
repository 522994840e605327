"""Leases: how long a grant may last, and when no grant of an earlier leader can.

A leader commits a beat every third of a lease. It grants for the lease minus the time
since it sent its last successful commit, so each lease that it ever granted ends within
one lease of that commit. Whoever led before can have sent none after the next leader's
`init_transactions`, so from then a lease and its bound suffice (Gray and Cheriton 1989).

A leader that the brokers are away from can prove in another way that nobody has replaced
it: every host of a set that a next leader will ask first acknowledges it once more
(`Round`). The argument is in `docs/decisions/0008-renewing-without-the-brokers.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from samza_dagster.placement.state import Limits


def grant_ms(limits: Limits, now_ms: int, last_commit_sent_ms: int) -> int:
    """What may be granted now, in ms from when the agent asked; 0 for a leader without a beat.

    Both times are the leader's monotonic clock.
    """
    return max(0, limits.lease_ms - max(0, now_ms - last_commit_sent_ms))


def beat_every_ms(limits: Limits) -> int:
    """How often a leader commits when nothing else makes it: a third of the lease."""
    return max(1, limits.lease_ms // 3)


def over_ms(limits: Limits, last_grant_ms: int) -> int:
    """When a lease granted at `last_grant_ms` or before has run out for sure."""
    return last_grant_ms + limits.lease_ms + limits.lease_bound_ms


def shortest_left_ms(limits: Limits) -> int:
    """What is left of every lease at least, while a leader commits and the agents hear of it.

    The longest absence of the coordinator, or of the brokers, that ends no container. A
    beat may be due and an agent's next word, too (it waits for a quarter of the lease, or
    of the time after which a host is lost).
    """
    longest_silence_ms = min(limits.lease_ms, limits.host_timeout_ms) // 4
    return max(0, limits.lease_ms - beat_every_ms(limits) - longest_silence_ms)


@dataclass(frozen=True)
class Witnesses:
    """The set of hosts that stand for the brokers, as the leader's record has it.

    Hosts that were registered when the record was written. `outage_ms` bounds for how
    long after its last commit a leader may go on without the brokers; 0 is never.
    """

    hosts: frozenset[str] = frozenset()
    outage_ms: int = 0

    def joined(self, pending: Witnesses | None) -> Witnesses:
        """What a leader must ask while a record with another set may be committed or not."""
        if pending is None:
            return self
        if not (self.hosts and pending.hosts):
            return Witnesses()  # a next leader that reads an empty set asks nobody
        return Witnesses(self.hosts | pending.hosts, min(self.outage_ms, pending.outage_ms))


@dataclass(frozen=True)
class Round:
    """One question to all witnesses: do you still follow this leader?

    `began_ms` is before any of them was asked. A witness answers by repeating the number,
    so that no word which was on its way already counts; one that follows a higher epoch
    never answers, and one whose books don't know this epoch any more mustn't count. A
    round that asked nobody is never complete.
    """

    number: int
    began_ms: int
    asked: frozenset[str]
    missing: frozenset[str]

    @classmethod
    def of(cls, witnesses: Witnesses, number: int, now_ms: int) -> Round:
        """A new round; numbers grow within a leader's epoch."""
        return cls(number, now_ms, witnesses.hosts, witnesses.hosts)

    def answered(self, host: str, number: int) -> Round:
        """A witness repeated this number; a later one was given out later still."""
        if number < self.number or host not in self.missing:
            return self
        return replace(self, missing=self.missing - {host})

    def completed_ms(self) -> int | None:
        """When it began, once every witness has answered: nobody had taken over by then."""
        return self.began_ms if self.asked and not self.missing else None


def proven_ms(witnesses: Witnesses, last_commit_sent_ms: int, rounds: Iterable[Round]) -> int:
    """The last time at which this leader is known to have led: what grants count from.

    A successful commit proves the time of its sending. A complete round proves its
    beginning, but none that began longer than the recorded outage after that commit: a
    next leader that hears of no witness waits for that long. Without witnesses no round
    proves anything.
    """
    latest_ms = last_commit_sent_ms + witnesses.outage_ms
    proven = [last_commit_sent_ms]
    if witnesses.hosts:
        found = (r.completed_ms() for r in rounds)
        proven += [began_ms for began_ms in found if began_ms is not None and began_ms <= latest_ms]
    return max(proven)


def earlier_are_over_ms(
    limits: Limits,
    witnesses: Witnesses,
    took_over_ms: int,
    registered_ms: Mapping[str, int],
) -> int:
    """When no lease of an earlier leader can last any more, as far as the next one knows now.

    `witnesses` are of the record that it read at `took_over_ms`, `registered_ms` the hosts
    that follow it, and since when. The first witness among them ends all later rounds of
    the earlier leader; while there is none, the recorded outage does.
    """
    if not witnesses.hosts or witnesses.outage_ms <= 0:
        return over_ms(limits, took_over_ms)
    follow = [at_ms for host, at_ms in registered_ms.items() if host in witnesses.hosts]
    latest_ms = took_over_ms + witnesses.outage_ms
    return over_ms(limits, min([latest_ms, *(max(took_over_ms, at_ms) for at_ms in follow)]))
