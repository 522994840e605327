"""Two actives, a standby each, three hosts: every interleaving, as far as the time allows."""

from __future__ import annotations

import time

import pytest

from samza_dagster.simulation.explorer import Exploration, climb
from samza_dagster.simulation.small_world import LADDER

pytestmark = pytest.mark.small_world

# For each of the ladder's rungs; two are explored at a time.
SECONDS = 9.0


@pytest.fixture(scope="module")
def found() -> dict[str, Exploration]:
    return climb(deadline_s=SECONDS, workers=2, clock=time.monotonic)


def test_no_interleaving_breaks_a_rule(found: dict[str, Exploration]) -> None:
    """The fewest moves that lead there, should one do."""
    findings = {name: seen.finding for name, seen in found.items() if seen.finding is not None}
    assert findings == {}


def test_every_kind_of_trouble_was_looked_into(found: dict[str, Exploration]) -> None:
    """The release run goes to closure or to a million states (`simulate --small-world`)."""
    assert list(found) == [rung.name for rung in LADDER]
    print({name: seen.states for name, seen in found.items()})
    assert all(seen.closed or seen.states > 500 for seen in found.values())
