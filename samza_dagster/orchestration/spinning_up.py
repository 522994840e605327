"""One more standby of an active: started on request, then waited for until it is warm."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from samza_dagster.errors import ActionFailed
from samza_dagster.orchestration.acting import carry_out
from samza_dagster.orchestration.extra_standby import settled
from samza_dagster.orchestration.follow import errors_as_failures, map_metadata, root_run_id
from samza_dagster.orchestration.moves import CatchUp, MovePlan, host_map
from samza_dagster.orchestration.phases import SPIN_UP, Phases
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.requests import Outcome, standing
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.spun_up import host_of_started, note_spin_up, started_standby
from samza_dagster.orchestration.tables import table
from samza_dagster.orchestration.waits.conditions import Met, Wait, lags_by_processor
from samza_dagster.orchestration.waits.continuation import seen_before, suspend
from samza_dagster.orchestration.waits.heartbeat import Heartbeat
from samza_dagster.readiness import Bounds, LagAt, Steadiness, steadiness

SAMPLE_S = 2.0
SHOWN_SAMPLES = 200
SEEN_IS_GOOD_FOR_MS = 600_000


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def spin_up(context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource) -> Outcome:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    if plan.if_it_fails:
        with errors_as_failures():
            root = root_run_id(context)
            note_spin_up(context, standing(samza.client, root, SPIN_UP, plan.processor).uuid)
    return carry_out(context, samza, plan, Phases.spun_up)


@dg.op(
    out=dg.Out(
        str,
        is_required=False,
        description="The standby's processor id; nothing while the wait goes on without a run.",
    )
)
def wait_until_warm(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    started: Outcome,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Waits until the standby's lag has been small and flat for long enough.

    After `wait_in_run_s` the run ends and sensor `continuations` goes on with the wait.
    """
    standby = started_standby(started.message)
    with settled(context, samza, plan, standby), errors_as_failures():
        if standby is None or plan.catch_up is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        seen = seen_before(context)
        watch = WarmUp(samza.client, standby, plan.catch_up, log=context.log.info)
        verdict = watch.run(float(samza_policies.wait_in_run_s), seen)
        after = host_map(samza.client.view())
    if verdict is None:
        bounds = plan.catch_up
        suspend(
            context,
            Wait((standby,), bounds.lag_limit, bounds.steady_s, watch.deadline_ms, 0, ""),
        )
        return
    rows = [
        {"at": s.at_ms, "seconds": (s.at_ms - watch.samples[0].at_ms) / 1000, "records": s.records}
        for s in watch.samples[-SHOWN_SAMPLES:]
    ]
    metadata: dict[str, Any] = {
        "standby": standby,
        "host": host_of_started(started.message) or "-",
        "lag_records": watch.samples[-1].records or 0,
        "steady_seconds": verdict.steady_for_ms / 1000,
        "catch_up_seconds": rows[-1]["seconds"] or 0.0,
        "lag_table": table(rows, ("at", "seconds", "records")),
        **map_metadata(plan.before, after),
    }
    if seen is not None:
        metadata["waited_without_a_run"] = seen.why
    yield dg.Output(standby, metadata=metadata)


@dataclass
class WarmUp:
    """Samples of one standby's lag: the most that any of its stores is behind."""

    client: Placement
    standby: str
    bounds: CatchUp
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    log: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.samples: list[LagAt] = []
        self.deadline_ms = self.now_ms() + round(self.bounds.timeout_s * 1000)

    def run(self, in_run_s: float | None = None, seen: Met | None = None) -> Steadiness | None:
        """The verdict that says steady; None when `in_run_s` is over first.

        `seen` is what was seen of it between two runs: a standby that was steady then, and
        isn't behind now, is warm, and the deadline is that wait's. Raises `ActionFailed`
        when it takes too long, and for a standby that is gone.
        """
        limit = self.bounds.lag_limit
        bounds = Bounds(limit, limit, round(self.bounds.steady_s * 1000))
        began = self.now_ms()
        if seen is not None:
            self.deadline_ms = seen.deadline_ms
        beat = Heartbeat(self.log, self.now_ms)
        while True:
            if self.standby not in self.client.view().processors:
                raise ActionFailed(
                    f"standby {self.standby} runs",
                    seen="it isn't in the job any more",
                    fix="launch a new run: it starts another one",
                )
            now_ms = self.now_ms()
            records = lags_by_processor(self.client.lag()).get(self.standby)
            self.samples.append(LagAt(now_ms, records))
            verdict = steadiness(self.samples, now_ms, bounds)
            if not verdict.steady and seen is not None and self._was_steady(seen, records, now_ms):
                held = seen.steady_ms[self.standby]
                return Steadiness(True, held, f"seen between two runs: {seen.why}")
            if verdict.steady:
                return verdict
            if now_ms >= self.deadline_ms:
                why = verdict.why_not
                raise ActionFailed(
                    f"standby {self.standby} is warm within {self.bounds.timeout_s:g} s",
                    seen=why if seen is None else f"{why}; between two runs: {seen.why}",
                    fix="re-execute this run from failure to wait on: the standby runs and catches up",
                )
            if in_run_s is not None and now_ms - began >= in_run_s * 1000:
                return None
            left = (self.deadline_ms - now_ms) / 1000
            behind = "lag unknown" if records is None else f"{records:,} records behind"
            beat(
                "steady" if verdict.steady_for_ms else "not steady",
                f"standby {self.standby}: {behind}; {verdict.why_not}; {left:.0f} s left",
            )
            self.sleep(SAMPLE_S)

    def _was_steady(self, seen: Met, records: int | None, now_ms: int) -> bool:
        fresh = now_ms - seen.at_ms <= SEEN_IS_GOOD_FOR_MS
        small = records is not None and records <= self.bounds.lag_limit
        return fresh and small and self.standby in seen.steady_ms
