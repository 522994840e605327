"""The standby that a run spins up for its own move: given back, or kept and told of.

A run that fails or is terminated leaves it as its config says. `samza-dagster control-standby stop`
removes one that is left.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import ActionFailed, SamzaDagsterError
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.moves.phases import RELOCATE, SPIN_UP
from samza_dagster.orchestration.moves.spun_up import started_anew
from samza_dagster.orchestration.plans.move import MovePlan
from samza_dagster.orchestration.requests.asking import ask
from samza_dagster.orchestration.requests.follow import followed
from samza_dagster.orchestration.requests.step_request import Outcome, StepRequest, standing
from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

REMOVE_STANDBY = "remove_standby"
GIVES_PLACE = "gives_place"
KEEP, REMOVE = "keep", "remove"


def remove_standby(
    context: dg.OpExecutionContext,
    client: PlacementClient,
    standby: str,
    *,
    step: str = REMOVE_STANDBY,
    timeout_s: float,
) -> Outcome:
    """Stops a standby and removes it from the job, by one request of the run's chain.

    Raises `ActionFailed` when it isn't stopped, `DeadlineExceeded` when that takes too long.
    """
    there = client.view().processors.get(standby)

    def fits(host: str) -> bool:
        """A removal from another host was of another standby that had its id."""
        return there is None or host == there.host

    asked = standing(client, root_run_id(context), step, standby, fits=fits)
    if asked.response is None:
        context.log.info(
            f"{context.op.name}: asking that standby {standby} stops, request {asked.uuid}",
            extra={"request": asked.uuid},
        )
    request = ask(
        *(client, RequestKind.STOP_STANDBY, standby, asked.destination or ""),
        step=step,
        asked=asked,
    )
    outcome = followed(context, client, standby, request, timeout_s=timeout_s)
    if not outcome.succeeded:
        raise ActionFailed(
            f"standby {standby} is stopped and removed",
            seen=f"{outcome.status}: {outcome.message}",
            fix=f"re-execute this run from failure, or: samza-dagster control-standby stop {standby}",
        )
    return outcome


@dataclass(frozen=True)
class Leaving:
    """How a chain's own standby gives its place to the active: relocated, removed, or neither yet."""

    relocated: StepRequest
    removed: StepRequest

    @classmethod
    def of(cls, client: PlacementClient, root_run_id: str, plan: MovePlan, standby: str) -> Leaving:
        """As it was asked so far. A removal elsewhere was of another standby that had its id."""
        relocated = standing(client, root_run_id, RELOCATE, standby, fits=plan.makes_room)

        def fits(host: str) -> bool:
            return host in (plan.destination, relocated.destination)

        return cls(relocated, standing(client, root_run_id, GIVES_PLACE, standby, fits=fits))

    @property
    def is_asked(self) -> bool:
        """By this run or an earlier one of its chain; it isn't waited for any more."""
        return self.relocated.destination is not None or self.removed.destination is not None


@contextmanager
def settle_if_it_fails(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: MovePlan,
    standby: str | None,
) -> Generator[None]:
    """Settle what becomes of the extra standby when the work fails or the run is cancelled.

    Only for a plan that says so (`if_it_fails`); it is said in the log and in the metadata
    of the failure. Without a `standby` it is the one that is being started, which it is too late
    to cancel: where it is to be removed its start is awaited, for at most the plan's `timeout_s`.
    """

    def settle() -> str:
        if standby is None:
            return _settle_start(context, samza, plan)
        return _settle(context, samza, plan, standby)

    try:
        yield
    except dg.Failure as failure:
        outcome = settle() if plan.if_it_fails else ""
        if not outcome:
            raise
        raise dg.Failure(
            description=f"{failure.description} ({outcome})",
            metadata={**failure.metadata, "extra_standby": outcome},
            allow_retries=False,
        ) from failure
    except dg.DagsterExecutionInterruptedError:
        if plan.if_it_fails:
            settle()
        raise


def _settle_start(
    context: dg.OpExecutionContext, samza: SamzaClientResource, plan: MovePlan
) -> str:
    client = samza.client
    try:
        asked = standing(client, root_run_id(context), SPIN_UP, plan.processor, fits=plan.means)
        if asked.destination is None:
            return ""
        start = Outcome.of(SPIN_UP, asked, asked.destination)
        if not start.ended:
            if plan.if_it_fails != REMOVE:
                return ""
            context.log.info(
                f"request {asked.uuid} is awaited: what it starts is to be removed",
                extra={"request": asked.uuid},
            )
            start = followed(context, client, plan.processor, start, timeout_s=plan.timeout_s)
    except SamzaDagsterError as error:
        outcome = f"what became of the new standby isn't known: {error}"
        context.log.warning(outcome)
        return outcome
    if start.started is None or not start.succeeded:
        return ""
    return _settle(context, samza, plan, start.started)


def _settle(
    context: dg.OpExecutionContext, samza: SamzaClientResource, plan: MovePlan, standby: str
) -> str:
    client = samza.client
    try:
        found = client.view().processors.get(standby)
        other = started_anew(client, root_run_id(context), SPIN_UP, standby)
        if other:
            outcome = f"standby {standby} is another one by now, of request {other}: left alone"
        elif found is None:
            outcome = f"standby {standby} is gone; its store stays on {plan.destination}"
        elif plan.if_it_fails == REMOVE:
            remove_standby(context, client, standby, timeout_s=plan.timeout_s)
            outcome = f"standby {standby} is removed again: launch a new run to begin anew"
        else:
            outcome = (
                f"standby {standby} is kept and runs on {found.host}: re-execute this run from"
                f" failure to go on with it; samza-dagster control-standby stop {standby} removes it"
            )
    except SamzaDagsterError as error:
        outcome = f"what became of standby {standby} isn't known: {error}"
    context.log.warning(outcome)
    return outcome
