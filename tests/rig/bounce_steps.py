"""What lies between the steps of a bounce in progress, by the broker's clock."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from samza_dagster.orchestration.operations import record as bounce_record
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig
from tests.rig.cockpit import Cockpit
from tests.rig.stream_times import Placed


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
    """From the moment at which a run saw a container back to the next one that it asked for.

    After its canary a bounce bakes: who comes next then isn't counted.
    """
    asked = {p.uuid: p.asked_ms for p in made}
    found: list[int] = []
    for run in bounce_runs.runs_of(cockpit.instance, limit=None):
        rows = bounce_record.recorded(cockpit.instance, [run])
        config = run.run_config["ops"]["plan_bounce"]["config"]
        canaries = config.get("canaries", RollingBounceConfig.model_fields["canaries"].default)
        backs = [row.back_ms for row in rows if row.back_ms is not None]
        for row in rows:
            before = [back for back in backs if back <= asked[row.uuid]]
            if before and len(before) != canaries:
                found.append(asked[row.uuid] - max(before))
    return found
