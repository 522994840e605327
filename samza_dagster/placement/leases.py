"""Leases: how long a grant may last, and when no grant of an earlier leader can.

A leader commits a beat every third of a lease. It grants for the lease minus the time
since it sent its last successful commit, so each lease that it ever granted ends within
one lease of that commit. Whoever led before can have sent none after the next leader's
`init_transactions`, so from then a lease and its bound suffice (Gray and Cheriton 1989).
"""

from __future__ import annotations

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
