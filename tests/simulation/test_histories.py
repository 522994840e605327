"""Two hundred thousand events in virtual worlds: every judge is put to the test, and content."""

from __future__ import annotations

import time

import pytest

from tests.simulation import campaign
from tests.simulation.campaign import CampaignResult
from tests.simulation.coverage import COLUMNS, ROWS, missing
from tests.simulation.judges.violation import JUDGES

pytestmark = pytest.mark.simulator

EVENTS = 200_000
FIRST_SEED = 1


@pytest.fixture(scope="module")
def result() -> CampaignResult:
    return campaign.run(FIRST_SEED, EVENTS, workers=2, clock=time.monotonic)


def test_no_history_breaks_a_rule(result: CampaignResult) -> None:
    """The seed and its script, should one do."""
    assert [(b.seed, b.invariant, b.what) for b in result.broken] == []
    assert result.events >= EVENTS


def test_every_invariant_was_put_to_the_test(result: CampaignResult) -> None:
    """A judge that is never asked proves nothing."""
    assert [name for name in JUDGES if not result.premises[name]] == []


def test_faults_come_often(result: CampaignResult) -> None:
    """At least one to fifty events that changed the state."""
    assert result.faults * 50 >= result.changes


def test_faults_meet_nearly_every_transition(result: CampaignResult) -> None:
    """The long run meets each pair a hundred times; this one nearly all at least once."""
    assert len(missing(result.coverage, 1)) <= len(ROWS) * len(COLUMNS) // 50
