"""One more standby of an active: started on request, then waited for until it is warm."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from samza_dagster.errors import ActionFailed
from samza_dagster.orchestration.acting import carry_out
from samza_dagster.orchestration.follow import errors_as_failures, map_metadata
from samza_dagster.orchestration.moves import CatchUp, MovePlan, host_map
from samza_dagster.orchestration.phases import Phases
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.requests import Outcome
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import table
from samza_dagster.placement import texts
from samza_dagster.readiness import Bounds, LagAt, Steadiness, steadiness

SAMPLE_S = 2.0
SHOWN_SAMPLES = 200
_STARTED = re.compile(re.escape(texts.standby_started("@", "@")).replace("@", r"(\S+)"))


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def spin_up(context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource) -> Outcome:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    return carry_out(context, samza, plan, Phases.spun_up)


@dg.op(out=dg.Out(str, description="The standby's processor id."))
def wait_until_warm(
    context: dg.OpExecutionContext, plan: MovePlan, started: Outcome, samza: SamzaClientResource
) -> str:
    """Waits until the standby's lag has been small and flat for long enough."""
    with errors_as_failures():
        found = _STARTED.fullmatch(started.message)
        if found is None or plan.catch_up is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        standby = found[1]
        context.log.info(f"standby {standby} runs on {found[2]}; waiting until it is warm")
        watch = WarmUp(samza.client, standby, plan.catch_up)
        verdict = watch.run()
        after = host_map(samza.client.view())
    rows = [
        {"at": s.at_ms, "seconds": (s.at_ms - watch.samples[0].at_ms) / 1000, "records": s.records}
        for s in watch.samples[-SHOWN_SAMPLES:]
    ]
    context.add_output_metadata(
        {
            "standby": standby,
            "host": found[2],
            "lag_records": watch.samples[-1].records or 0,
            "steady_seconds": verdict.steady_for_ms / 1000,
            "catch_up_seconds": rows[-1]["seconds"] or 0.0,
            "lag_table": table(rows, ("at", "seconds", "records")),
            **map_metadata(plan.before, after),
        }
    )
    return standby


@dataclass
class WarmUp:
    """Samples of one standby's lag: the most that any of its stores is behind."""

    client: Placement
    standby: str
    bounds: CatchUp
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __post_init__(self) -> None:
        self.samples: list[LagAt] = []

    def run(self) -> Steadiness:
        """The verdict that says steady; raises `ActionFailed` when it takes too long."""
        limit = self.bounds.lag_limit
        bounds = Bounds(limit, limit, round(self.bounds.steady_s * 1000))
        began = self.now_ms()
        while True:
            lags = [r.lag for r in self.client.lag() if r.processor_id == self.standby]
            known = [lag for lag in lags if lag is not None]
            whole = bool(lags) and len(known) == len(lags)
            self.samples.append(LagAt(self.now_ms(), max(known) if whole else None))
            verdict = steadiness(self.samples, self.now_ms(), bounds)
            if verdict.steady:
                return verdict
            if self.now_ms() - began > self.bounds.timeout_s * 1000:
                raise ActionFailed(
                    f"standby {self.standby} is warm within {self.bounds.timeout_s:g} s",
                    seen=verdict.why_not,
                    fix="re-execute this run from failure to wait on: the standby runs and catches up",
                )
            self.sleep(SAMPLE_S)
