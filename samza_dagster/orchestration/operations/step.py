"""Carry out one step by an op of its own, and settle a standby whose move has failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, UnitStatus
from samza_dagster.orchestration.operations.work import ASKS, Chain, UnitWork
from samza_dagster.orchestration.plans.conditions import behind, lags_by_processor, reasons_unknown
from samza_dagster.orchestration.plans.move import MovePlan
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan, UnitStep
from samza_dagster.orchestration.requests.follow import failed, request_metadata
from samza_dagster.orchestration.requests.step_request import (
    Moment,
    StepRequest,
    standing,
    started_anew,
)
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

REMOVE_STANDBY = "remove_standby"
KEEP, REMOVE = "keep", "remove"


class StepOp:
    """Carries out the steps of a plan one at a time, by `UnitWork`.

    When the run ends, its resource gives back every hold that wasn't committed.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        samza: SamzaClientResource,
        plan: MovePlan | UnitsPlan,
    ) -> None:
        self.client: PlacementClient = samza.client
        self.root = root_run_id(context)
        self.commits = OwnCommits.of_run(context)
        self._context = context
        self._plan = plan
        self._ids: dict[str, str] = {}
        of_plan = (plan.coordinator, plan.limits, samza.holds, self.commits)
        self._chain = Chain(self.client, self.root, *of_plan)

    def find(self, step: str, processor: str, fits: Callable[[str], bool]) -> StepRequest:
        """Return the state of a step's request, as `step_request.standing` does."""
        return standing(self.client, self.root, step, processor, fits=fits)

    def ask(
        self,
        step: UnitStep,
        request: StepRequest,
        *,
        until: Callable[[StepRequest], bool] = lambda _: False,
        commits: bool = True,
    ) -> StepRequest:
        """Ask a request, or go on with it, until it is far enough or has ended; return it.

        A request that is held is committed only if the op `commits`. Raises `dg.Failure` when it
        ends badly or takes too long, and the errors of ours.
        """
        self._ids = {"request": request.uuid}
        work = self._work(step)
        work.commits = commits
        work.take(request)
        if not request.timeline:
            told = " was asked before" if request.destination is not None else ""
            self._log(
                f"processor {step.processor} → {step.destination}: request {request.uuid},"
                f" attempt {request.attempt + 1}{told}"
            )

        def is_far_enough() -> bool:
            return work.outcome is not None and until(work.outcome)

        self._carry_out(work, is_far_enough)
        assert work.outcome is not None
        return work.outcome

    def wait(self, step: UnitStep, *, started_by: str = "", standby: str | None = None) -> UnitWork:
        """Wait as the step says; return the work that has seen the end of it.

        `started_by` is the request that has started its container, `standby` the new one of a step
        that is about that. Raises the error of ours that tells what it has waited for in vain.
        """
        work = self._work(step)
        work.started_by, work.row = started_by, replace(work.row, standby=standby)
        self._carry_out(work, lambda: False)
        return work

    def _work(self, step: UnitStep) -> UnitWork:
        return UnitWork(self._chain, Unit(step.processor, "", "", (step,), ""))

    def _carry_out(self, work: UnitWork, is_far_enough: Callable[[], bool]) -> None:
        """Look at the work until it has ended or is far enough; the log shows its progress."""
        looks = runner.Looks(self.client, self._plan.limits.timeout_s, self._log)
        told, state, due_ms = len(_timeline(work)), "", elapsed_ms() + runner.EVERY_MS
        try:
            work.begin(elapsed_ms())
            while work.row.status in UNDER_WAY:
                now_ms, is_over = elapsed_ms(), False
                try:
                    looks.read_if_due(now_ms)
                    if work.needs_lags:
                        looks.read_lags(now_ms)
                    work.look(looks.job(), looks.reported, now_ms)
                    is_over = work.row.status not in UNDER_WAY or is_far_enough()
                    looks.answered()
                except Unreachable as error:
                    looks.wait_for(error, now_ms)
                for one in _timeline(work)[told:]:
                    seen = f"{one.stage}: {one.status}: {one.message}"
                    self._log(f"{seen} (+{one.since_request_ms} ms)")
                    told += 1
                if is_over:
                    break
                if state != (state := _state(work)) or now_ms >= due_ms:
                    due_ms = now_ms + runner.EVERY_MS
                    self._log(self._line(work, now_ms))
                time.sleep(runner.POLL_S)
        except dg.DagsterExecutionInterruptedError:
            request = f" while request {work.row.uuid} is in flight" if work.row.uuid else ""
            told_of = f"{self._context.op.name}: cancelled{request}: {work.give_back()}"
            self._context.log.warning(told_of, extra=self._ids)
            raise
        if work.row.status in (UnitStatus.FAILED, UnitStatus.STUCK):
            raise work.error or self._failure(work)

    def _failure(self, work: UnitWork) -> dg.Failure:
        op, request, why = self._context.op.name, work.outcome, work.row.why
        assert request is not None
        if request.ended:
            return failed(op, request, self._plan.before, self.client)
        if work.row.status is UnitStatus.STUCK:
            limit = f"{self._plan.limits.timeout_s:g} s"
            why = (
                f"request {request.uuid} has no end in {limit} ({request.said}); {work.give_back()}"
            )
        return dg.Failure(
            description=f"{op}: {why}",
            metadata=request_metadata(request.uuid, request.timeline),
            allow_retries=False,
        )

    def _log(self, text: str) -> None:
        self._context.log.info(f"{self._context.op.name}: {text}", extra=self._ids)

    def _line(self, work: UnitWork, now_ms: int) -> str:
        row, step, request = work.row, work.step, work.outcome
        if step is None or step.kind is Kind.WAIT_WARM:
            return row.why
        what = row.why
        if step.kind in ASKS and request is not None:
            what = "; ".join(
                filter(None, (f"request {request.uuid} is {request.said}", work.trouble))
            )
        seen = seen_now(self.client, step.processor, row.uuid)
        left_s = max(0, (row.until_ms or now_ms) - now_ms) / 1000
        return f"waiting: {what}; {seen}; {left_s:.0f} s left"

    # What becomes of a standby that was started for work that has failed.

    def remove_standby(self, standby: str, step: str = REMOVE_STANDBY) -> StepRequest:
        """Stop a standby and remove it from the job, by one request of the run's chain."""
        there = self.client.view().processors.get(standby)
        # A removal from another host was of another standby that had its id.
        asked = self.find(step, standby, lambda host: there is None or host == there.host)
        return self.ask(UnitStep(step, Kind.STOP_STANDBY, standby), asked)

    def settle(
        self, standby: str, host: str, fate: str, *, started_by: str, step: str, anew: str
    ) -> str:
        """Keep the standby, or remove it; return what became of it. Raises nothing of ours.

        `started_by` names the step that started it on `host`. `anew` says how to start over.
        """
        try:
            there = self.client.view().processors.get(standby)
            if other := started_anew(self.client, self.root, started_by, standby):
                told = f"standby {standby} is another one by now, of request {other}: left alone"
            elif there is None:
                told = f"standby {standby} is gone; its store stays on {host}"
            elif fate == REMOVE:
                self.remove_standby(standby, step)
                told = f"standby {standby} is removed again: {anew}"
            else:
                told = (
                    f"standby {standby} is kept and runs on {there.host}: re-execute this run from"
                    f" failure to go on with it; samza-dagster control-standby stop {standby} removes it"
                )
        except (SamzaDagsterError, dg.Failure) as error:
            told = f"what became of standby {standby} isn't known: {error}"
        self._context.log.warning(told)
        return told


def _timeline(work: UnitWork) -> Sequence[Moment]:
    return work.outcome.timeline if work.outcome is not None else ()


def _state(work: UnitWork) -> str:
    """Return the state whose change is logged at once."""
    is_steady = work.warm_up is not None and work.warm_up.steady_ms is not None
    return f"{work.trouble}{' steady' if is_steady else ''}"


def seen_now(client: PlacementClient, processor_id: str, request: str = "") -> str:
    """Return a line for the log about a container and its action.

    The lag of its stores shows the progress of its restore. Raises nothing of ours: a line of the log
    ends no wait.
    """
    try:
        view = client.view()
        actions = (*view.actions, *view.queued) if request else ()
        parts = [f"its action is at {a.stage}" for a in actions if a.uuid == request]
        found = view.processors.get(processor_id)
        if found is None:
            parts.append(f"{processor_id} isn't in the job")
            return ", ".join(parts)
        where = f" on {found.host}" if found.host else ""
        parts.append(f"{processor_id} is {found.state}{where}")
        replicas = client.lag()
        lags, reasons = lags_by_processor(replicas), reasons_unknown(replicas)
        if processor_id in lags:
            parts.append(behind(lags[processor_id], reasons.get(processor_id, "")))
        return ", ".join(parts)
    except SamzaDagsterError as error:
        return f"{processor_id} can't be looked at: {error.seen or error.asked}"
