"""How long a bounce in progress takes from what it hears to what it asks next."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

import pytest

from samza_dagster.orchestration.bounce import record as bounce_record
from samza_dagster.orchestration.bounce import runs as bounce_runs
from tests.rig.cockpit import Cockpit
from tests.rig.stream_times import Placed, placements

pytestmark = pytest.mark.realcockpit

MEDIAN_MS = 1_000


def spread(times: Sequence[int]) -> dict[str, int]:
    """n, median, p95 and most, ms."""
    ranked = sorted(times)
    return {
        "n": len(ranked),
        "median": round(statistics.median(ranked)),
        "p95": ranked[min(len(ranked) - 1, round(0.95 * (len(ranked) - 1)))],
        "most": ranked[-1],
    }


def after_holds(made: Sequence[Placed]) -> list[int]:
    """From `reserved, waits for commit` to the commit."""
    return [p.commit_ms - p.held_ms for p in made if p.held_ms and p.commit_ms]


def after_backs(cockpit: Cockpit, made: Sequence[Placed]) -> list[int]:
    """From the moment at which a run saw a container back to the next one that it asked for."""
    asked = {p.uuid: p.asked_ms for p in made}
    found: list[int] = []
    for run in bounce_runs.bounces(cockpit.instance, limit=None):
        rows = bounce_record.recorded(cockpit.instance, [run])
        backs = [row.back_ms for row in rows if row.back_ms is not None]
        for row in rows:
            before = [back for back in backs if back <= asked[row.uuid]]
            if before:
                found.append(asked[row.uuid] - max(before))
    return found


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
