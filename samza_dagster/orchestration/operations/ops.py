"""The ops that work on several containers share: how a plan is told, carried out and left."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.operations.planning import plan_output
from samza_dagster.orchestration.operations.progress import RunEnd
from samza_dagster.orchestration.operations.record import RunLedger
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.operations.schedule import UnitStatus
from samza_dagster.orchestration.operations.shown import (
    failures_text,
    longest_downtime,
    outcomes_table,
    pictures,
    plan_markdown,
    plan_table,
    standby_cost,
    steps_table,
)
from samza_dagster.orchestration.operations.step import REMOVE_STANDBY, StepOp
from samza_dagster.orchestration.operations.work import ASKS
from samza_dagster.orchestration.plans.move import host_map
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan, UnitStep
from samza_dagster.orchestration.requests.follow import (
    Metadata,
    errors_as_failures,
    map_after_failure,
    map_metadata,
)
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

MOST_CHARACTERS = 5_000  # characters of a failure's description


def units_plan_output(
    context: dg.OpExecutionContext,
    plan: UnitsPlan,
    asked: dict[str, Any],
    *,
    dry_run: bool,
    **more: dg.TableMetadataValue,
) -> dg.Output[Any]:
    """The plan as the op's output: to be carried out, or on a dry run as text alone."""
    metadata: Metadata = {"plan_table": plan_table(plan), "containers": len(plan.units), **more}
    return plan_output(
        context,
        plan,
        plan_markdown(plan),
        metadata,
        asked=asked,
        dry_run=dry_run,
    )


def refusals(client: "PlacementClient", units: Iterable[Unit]) -> list[tuple[Unit, str]]:
    """What the client's own rules say against the first request of each unit.

    Of the stops that Samza's AM counts `over_budget` tells: they add up over all steps.
    """
    found: list[tuple[Unit, str]] = []
    for unit in units:
        first = next((step for step in unit.steps if step.kind in ASKS), None)
        if first is None:
            continue
        try:
            refusal = _refusal(client, first)
        except InvalidInput as error:  # it isn't in the job any more
            refusal = str(error)
        if refusal:
            found.append((unit, f"{unit.processor}: {refusal}"))
    return found


def over_budget(view: "JobView", units: Sequence[Unit]) -> list[tuple[Unit, str]]:
    """Units with a container that their steps stop more often than Samza's AM may let pass."""
    found: list[tuple[Unit, str]] = []
    stops = _stops(units)
    for unit in units:
        for processor in _stops([unit]):
            budget = view.stop_budgets.get(processor)
            asked = f"place {processor}"
            refused = budget.refusal(asked, stops[processor]) if budget is not None else None
            if refused is not None:
                found.append((unit, f"{unit.processor}: {refused}"))
    return found


def budget_notices(view: "JobView", units: Iterable[Unit]) -> tuple[str, ...]:
    """What is to be known of the stops that Samza's AM counts, before the units' own."""
    parts = (
        view.stop_budgets[processor].notice(stops)
        for processor, stops in _stops(units).items()
        if processor in view.stop_budgets
    )
    return tuple(filter(None, parts))


def _stops(units: Iterable[Unit]) -> Counter[str]:
    steps = (step for unit in units for step in unit.steps)
    return Counter(step.processor for step in steps if step.kind is Kind.PLACE)


def _carry_out_units(
    context: dg.OpExecutionContext, samza: SamzaClientResource, plan: UnitsPlan
) -> Runner:
    """Carries the plan out.

    Raises `dg.Failure` with what failed and what is left.
    """
    client = samza.client
    runner = Runner(
        *(client, plan, root_run_id(context), RunLedger(context, plan), samza.holds),
        commits=OwnCommits.of_run(context),
    )
    away = ""
    try:
        end = runner.run().end
    except Unreachable as error:  # for longer than the loop waits
        end, away = RunEnd.STOPPED, str(error)
    except dg.DagsterExecutionInterruptedError:
        _settle_standbys(context, samza, plan, runner)
        raise
    if end is not RunEnd.DONE:
        left = _settle_standbys(context, samza, plan, runner)
        rows = [*runner.rows.values()]
        why_all = "; ".join(filter(None, (away, failures_text(rows))))
        raise dg.Failure(
            description=f"{plan.what} {plan.subject}: {why_all}"[:MOST_CHARACTERS],
            metadata={
                "outcomes": outcomes_table(rows),
                "steps": steps_table(runner.units.values()),
                **pictures(runner.units.values()),
                "extra_standbys": left or "none",
                "fix": "re-execute this run from failure: what is done is found done, what failed"
                " is asked anew; a new run makes a new plan",
                **map_after_failure(plan.before, client),
            },
            allow_retries=False,
        )
    return runner


def carried_out(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: UnitsPlan,
    then: Callable[["PlacementClient"], dict[str, Any]],
) -> Iterator[dg.Output[Any]]:
    """The output of the op that carries the plan out.

    `then` looks at what has come of it, and gives more metadata.
    """
    with errors_as_failures():
        client = samza.client
        runner = _carry_out_units(context, samza, plan)
        more = then(client)
        metadata = {**outcome_metadata(client, plan, runner), **more}
    yield dg.Output(len(runner.rows), metadata=metadata)


def outcome_metadata(client: "PlacementClient", plan: UnitsPlan, runner: Runner) -> dict[str, Any]:
    """What was done, for how long actives were down, and what standbys for it cost."""
    view, rows = client.view(), [*runner.rows.values()]
    via = {row.processor for row in rows if row.standby is not None}
    ends = [
        replica.end_offset
        for replica in (client.lag() if via else ())
        if replica.processor_id in via
    ]
    return {
        "outcomes": outcomes_table(rows),
        "steps": steps_table(runner.units.values()),
        **pictures(runner.units.values()),
        **map_metadata(plan.before, host_map(view)),
        **standby_cost(rows, view, ends),
        **longest_downtime(rows),
    }


def _settle_standbys(
    context: dg.OpExecutionContext, samza: SamzaClientResource, plan: UnitsPlan, runner: Runner
) -> str:
    """Of units that didn't end well: removes the standbys they spun up, or says that they are kept."""
    op, outcomes = StepOp(context, samza, plan), list[str]()
    for work in runner.units.values():
        row, unit = work.row, work.unit
        if row.standby is None or row.standby_until_ms is not None or row.status is UnitStatus.BACK:
            continue
        start = next(step for step in unit.steps if step.kind is Kind.START_STANDBY)
        attempt = f"/{work.standby_attempt}" if work.standby_attempt else ""
        told = op.settle(
            *(row.standby, start.destination, plan.if_it_fails),
            started_by=f"{plan.prefix}/{unit.processor}/{start.name}",
            step=f"{REMOVE_STANDBY}/{row.standby}{attempt}",
            anew="re-executed, this run starts another one",
        )
        outcomes.append(told)
    return "; ".join(outcomes)


def _refusal(client: "PlacementClient", step: UnitStep) -> str | None:
    if step.kind is Kind.PLACE:
        return client.plan(step.processor, step.destination, beyond_budget=True).refusal
    kind = RequestKind(step.kind.value)
    if step.kind is Kind.START_STANDBY:
        return client.plan_own(kind, step.processor, step.destination).refusal
    return client.plan_own(kind, step.processor).refusal
