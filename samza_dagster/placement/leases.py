"""Leases: how long a grant may last, and when every grant of an earlier leader has ended.

A leader commits a beat every third of a lease. It grants for the lease minus the time since it
sent its last successful commit. So each of its leases ends within one lease of that commit. An
earlier leader can't have sent a commit after the next leader's `init_transactions`. A lease and
its bound suffice from then on (Gray and Cheriton 1989).
"""

from __future__ import annotations

from samza_dagster.placement.state import Limits


def grant_ms(limits: Limits, now_ms: int, last_commit_sent_ms: int) -> int:
    """Return the grant in ms from the agent's request; 0 for a leader without a beat.

    Both times are the leader's monotonic clock.
    """
    return max(0, limits.lease_ms - max(0, now_ms - last_commit_sent_ms))


def beat_every_ms(limits: Limits) -> int:
    """Return how often a leader commits without any other reason: a third of the lease."""
    return max(1, limits.lease_ms // 3)


def over_ms(limits: Limits, last_grant_ms: int) -> int:
    """Return when every lease granted at `last_grant_ms` or before has surely run out."""
    return last_grant_ms + limits.lease_ms + limits.lease_bound_ms
