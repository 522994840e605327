"""Leases: what a leader may grant its hosts, and when it must show that it still leads.

A lease ends within one lease of the leader's last successful commit, so that a leader
that can't commit lets its containers end before a next one replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from samza_dagster.coordinator.limits import LEASE
from samza_dagster.placement import leases
from samza_dagster.placement.state import Limits

COUNTED_MS = 5_000
"""What was counted shows in the leader's record after so long at the latest."""
OUTAGE_MS = 60_000
"""An absence of brokers or coordinator that no lease should be too short for."""


def shortest_left_ms(limits: Limits) -> int:
    """Return what is left of every lease at least, while a leader commits and the agents hear of it.

    This is the longest absence of coordinator or brokers that ends no container. A beat may be
    due, and an agent's next report too (it waits for a quarter of the lease, or of the time
    after which a host is lost).
    """
    longest_silence_ms = min(limits.lease_ms, limits.host_timeout_ms) // 4
    return max(0, limits.lease_ms - leases.beat_every_ms(limits) - longest_silence_ms)


def outlived(limits: Limits) -> str:
    """Describe the outage that the lease survives at the worst moment."""
    left_s = shortest_left_ms(limits) // 100 / 10
    lease_s = limits.lease_ms / 1000
    return f"{left_s:g} s without brokers or coordinator, by a lease of {lease_s:g} s"


def short_lease(limits: Limits) -> str:
    """Describe what a lease that an outage of a minute outlasts may lead to; else empty.

    A leader without brokers doesn't renew, so containers end with their leases.
    """
    if shortest_left_ms(limits) >= OUTAGE_MS:
        return ""
    enough_s = next(
        seconds
        for seconds in count(1)
        if shortest_left_ms(replace(limits, lease_ms=seconds * 1000)) >= OUTAGE_MS
    )
    return (
        f"containers are sure to live through {outlived(limits)}: a minute without them may end "
        f"containers; {LEASE.key}={enough_s * 1000} or more outlasts it"
    )


@dataclass
class LeaseTerms:
    """The leases of one term. Read from the threads that answer agents, written by one.

    `lease_ms` is the config's. `limits.lease_ms` may be longer: an earlier leader's leases may
    still run. `began_ms` is when this leader took over.
    """

    lease_ms: int
    limits: Limits
    began_ms: int

    def __post_init__(self) -> None:
        self._sent_ms = self._leader_sent_ms = self.began_ms
        self._own = replace(self.limits, lease_ms=self.lease_ms)

    @classmethod
    def of(cls, limits: Limits, *, before_ms: int, began_ms: int) -> LeaseTerms:
        """Return the terms after a leader with leases of `before_ms`, 0 without one."""
        longest = max(limits.lease_ms, before_ms)
        return cls(limits.lease_ms, replace(limits, lease_ms=longest), began_ms)

    def committed(self, sent_ms: int, *, with_leader: bool = False) -> None:
        """Note the success of a commit sent then; `with_leader`: it had the leader's record."""
        self._sent_ms = max(self._sent_ms, sent_ms)
        if with_leader:
            self._leader_sent_ms = max(self._leader_sent_ms, sent_ms)

    def grant_s(self, now_ms: int) -> float:
        """Return the seconds that a lease granted now may last."""
        return leases.grant_ms(self._own, now_ms, self._sent_ms) / 1000

    def longest_ms(self, now_ms: int) -> int:
        """Return the longest lease that may still run, for the next leader to wait for."""
        old_are_over = now_ms > leases.over_ms(self.limits, self.began_ms)
        return self.lease_ms if old_are_over else self.limits.lease_ms

    @property
    def beat_every_ms(self) -> int:
        """The interval of the leader's record without a change: a third of the lease."""
        return leases.beat_every_ms(self._own)

    @property
    def next_beat_ms(self) -> int:
        """Return when it is due next; commits of steps don't replace it."""
        return self._leader_sent_ms + self.beat_every_ms

    @property
    def next_count_ms(self) -> int:
        """Return when it is due next if its counters have changed."""
        return self._leader_sent_ms + min(COUNTED_MS, self.beat_every_ms)
