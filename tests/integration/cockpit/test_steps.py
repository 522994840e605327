"""How long a bounce in progress takes from what it hears to what it asks next."""

from __future__ import annotations

import json
import statistics

import pytest

from tests.rig.bounce_steps import after_backs, after_holds, spread
from tests.rig.cockpit import Cockpit
from tests.rig.stream_times import placements

pytestmark = pytest.mark.realcockpit

MEDIAN_MS = 1_000


def test_the_next_step_is_asked_within_a_second_of_the_answer(ready: Cockpit) -> None:
    """By the broker's clock, at the median over all restarts that bounces of this cockpit made."""
    if not after_backs(ready, placements(ready.job.connection)):  # this scenario runs alone
        root = ready.bounce(canaries=0)
        ready.until_bounce(root, "done")
    made = placements(ready.job.connection)
    answered, back = after_holds(made), after_backs(ready, made)
    print(json.dumps({"held_to_commit_ms": spread(answered), "back_to_next_ms": spread(back)}))
    assert statistics.median(answered) <= MEDIAN_MS
    assert statistics.median(back) <= MEDIAN_MS
