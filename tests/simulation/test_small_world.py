"""Two actives, a standby each, three hosts: every interleaving, as far as the time allows."""

from __future__ import annotations

import time

import pytest

from tests.simulation.explorer import Exploration, explore, explore_troubles
from tests.simulation.small_world import TROUBLES, Budget, SmallWorld, move

pytestmark = pytest.mark.small_world

# For each of the troubles; two are explored at a time.
SECONDS = 8.0


@pytest.fixture(scope="module")
def found() -> dict[str, Exploration]:
    return explore_troubles(deadline_s=SECONDS, workers=2, clock=time.monotonic)


def test_no_interleaving_breaks_a_rule(found: dict[str, Exploration]) -> None:
    """The fewest moves that lead there, should one do."""
    findings = {name: seen.finding for name, seen in found.items() if seen.finding is not None}
    assert findings == {}


def test_every_kind_of_trouble_was_looked_into(found: dict[str, Exploration]) -> None:
    """The release run goes to closure or to a million states (`simulate --small-world`)."""
    assert list(found) == [trouble.name for trouble in TROUBLES]
    print({name: seen.states for name, seen in found.items()})
    assert all(seen.closed or seen.states > 500 for seen in found.values())


def test_in_haste_an_expiry_comes_before_what_is_held_is_told() -> None:
    """Without it time passes only when nobody else has anything to do: no move ever fails."""
    ends: dict[int, set[str]] = {}
    for haste in (0, 1):
        budget = Budget(crashes=0, lost_hosts=0, duplicates=0, haste=haste)
        seen = explore(SmallWorld(budget, asks=(move("u-1", "0", "ANY_HOST"),)))
        assert seen.closed
        assert seen.finding is None
        ends[haste] = {status for _, last in seen.outcomes for _, status in last}
    assert ends == {0: {"SUCCEEDED"}, 1: {"SUCCEEDED", "FAILED"}}
