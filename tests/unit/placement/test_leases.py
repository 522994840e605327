"""How long a host may go on without word from a leader that commits."""

from __future__ import annotations

import pytest

from samza_dagster.placement.leases import beat_every_ms, grant_ms, over_ms
from samza_dagster.placement.state import Limits

pytestmark = pytest.mark.unit

LIMITS = Limits(lease_ms=30_000, lease_bound_ms=4_000)


@pytest.mark.parametrize(
    ("since_commit_ms", "granted_ms"),
    [(0, 30_000), (1, 29_999), (29_999, 1), (30_000, 0), (90_000, 0), (-5_000, 30_000)],
)
def test_a_lease_is_granted_from_the_last_commit_on(since_commit_ms: int, granted_ms: int) -> None:
    """Never longer than a lease, and nothing by a leader that commits no more."""
    assert grant_ms(LIMITS, 100_000, 100_000 - since_commit_ms) == granted_ms


def test_a_leader_commits_three_times_in_a_lease() -> None:
    """But once in a millisecond at most."""
    lengths = (30_000, 6, 2, 1)
    assert [beat_every_ms(Limits(lease_ms=ms)) for ms in lengths] == [10_000, 2, 1, 1]


def test_a_lease_is_over_once_clocks_that_run_apart_agree() -> None:
    """The bound is added."""
    assert over_ms(LIMITS, 1_000) == 35_000
