"""The ops that act: the standby makes room; reserve, stop, move; the end is verified."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import ActionFailed
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN, STANDBY
from samza_dagster.orchestration.moves.extra_standby import settle_if_it_fails
from samza_dagster.orchestration.moves.phases import MovePhases
from samza_dagster.orchestration.plans.move import START_STANDBY, MovePlan, host_map
from samza_dagster.orchestration.requests.follow import (
    errors_as_failures,
    map_metadata,
    outcome_metadata,
)
from samza_dagster.orchestration.requests.heartbeat import seen_now, time_left, wait_for
from samza_dagster.orchestration.requests.outcomes import (
    first_commit_seconds,
    phase_seconds,
    timeline_shown,
    timeline_table,
)
from samza_dagster.orchestration.requests.step_request import Outcome
from samza_dagster.orchestration.requests.verify import Expected, Verification, not_running
from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient, ProcessorView
    from samza_dagster.orchestration.requests.refusing import Row


@dg.op(out=dg.Out(Outcome, description="The standby's request, or the one of the whole move."))
def move_standby_away(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> Outcome:
    """Frees the host of the standby, which goes elsewhere.

    On our coordinator it asks for the whole move, or fail-over, as one crash-proof
    action and ends when the standby is down; else it moves the standby by a request of
    its own, to a host away from source and destination.
    """
    return carry_out(context, samza, plan, MovePhases.make_room)


@dg.op(out=dg.Out(Outcome, description="The request, its destination reserved."))
def reserve(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    samza: SamzaClientResource,
    begun: Outcome | None = None,
) -> Outcome:
    """Reserves the destination. On our coordinator it is held and nothing is stopped yet."""
    return carry_out(context, samza, plan, lambda phases: phases.reserve(begun))


@dg.op(out=dg.Out(Outcome, description="The request, its container stopped."))
def stop(
    context: dg.OpExecutionContext, plan: MovePlan, reserved: Outcome, samza: SamzaClientResource
) -> Outcome:
    """Commits what is held: the container is stopped, which can't be taken back."""
    return carry_out(context, samza, plan, lambda phases: phases.stop(reserved))


@dg.op(out=dg.Out(Outcome, description="How the container's request ended."))
def move(
    context: dg.OpExecutionContext, plan: MovePlan, stopped: Outcome, samza: SamzaClientResource
) -> Outcome:
    """The container starts on its destination and checks in there."""
    return carry_out(context, samza, plan, lambda phases: phases.start(stopped))


def carry_out(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: MovePlan,
    work: Callable[[MovePhases], Outcome],
) -> Outcome:
    """Carries out one phase of the plan, and tells it in the op's metadata."""
    apart = context.op.name == "move_standby_away" and plan.destination != STANDBY
    about = plan.standby if apart and plan.standby else plan.processor

    def explain() -> "Sequence[Row]":
        from samza_dagster.orchestration.requests.refusing import hosts_for, hosts_for_a_new_standby

        if plan.kind == START_STANDBY:
            return hosts_for_a_new_standby(samza.client, about)
        return hosts_for(samza.client, about)

    with settle_if_it_fails(context, samza, plan, plan.standby), errors_as_failures(explain):
        phases = MovePhases(context, samza, plan)
        outcome = work(phases)
    context.add_output_metadata(outcome_metadata(outcome, phases.role))
    return outcome


@dg.op(out=dg.Out(str, description="Where the container runs."))
def verify_placement(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    outcomes: list[Outcome],
    samza: SamzaClientResource,
) -> Iterator[dg.Output[str]]:
    """Checks that the container runs where it was sent and, an active, that it processes again.

    The pictures of its log come after its output: what a run's page shows first is what came last.
    """
    moved = outcomes[-1]
    with errors_as_failures():
        client = samza.client
        started = time.monotonic()
        there = client.view().processors.get(plan.processor)
        why = not_running(there)
        if there is None or why:
            raise ActionFailed(
                f"processor {plan.processor} runs after its move",
                seen=why,
                fix="look at the container's log on its host",
            )
        expected = _expected(plan, _on_its_host(there, plan))
        verified = _verified(context, client, plan, expected, moved.since)
        committed_ms = time.time_ns() // 1_000_000
        view = client.view()  # what processes by now may be what somebody else has moved meanwhile
        processor = _on_its_host(view.processors.get(plan.processor, there), plan)
        after = host_map(view)
    outcomes = [o for o in outcomes[:-1] if o.uuid != moved.uuid] + [
        moved
    ]  # one request, told once
    moments = [moment for outcome in outcomes for moment in outcome.timeline]
    seconds = {k: v for outcome in outcomes for k, v in phase_seconds(outcome).items()}
    if context.run.parent_run_id is None:  # else the commit may be older than this run
        seconds |= first_commit_seconds(moved, committed_ms)
    yield dg.Output(
        processor.host or "",
        metadata={
            "timeline": timeline_shown(moments),
            **map_metadata(plan.before, after),
            "timeline_table": timeline_table(moments),
            **seconds,
            "verify_seconds": round(time.monotonic() - started, 3),
            "verified": verified,
            "execution_id": processor.execution_id or "-",
            **{f"{o.step}_request": o.uuid for o in outcomes if o.uuid},
        },
    )
    context.log.info(f"{plan.processor} runs on {processor.host}; {verified}")


def _on_its_host(processor: "ProcessorView", plan: MovePlan) -> "ProcessorView":
    wanted = plan.expected_host
    if wanted is not None and processor.host != wanted:
        raise ActionFailed(
            f"processor {plan.processor} runs on {wanted}",
            seen=f"it runs on {processor.host}",
            fix="something has moved it since: look at placement_history; a new run makes a new plan",
        )
    return processor


def _expected(plan: MovePlan, there: "ProcessorView") -> Expected:
    """Where Samza's AM has launched a standby elsewhere, its own word shows that it is there."""
    moved = there.host not in (None, plan.source_host) and not plan.any_host
    reports = moved and not capabilities(plan.coordinator).tells_what_runs
    return Expected(
        plan.processor,
        str(there.mode).lower() == "active",
        plan.verify_timeout_s,
        reports_from=str(there.host) if reports else "",
    )


def _verified(
    context: dg.OpExecutionContext,
    client: "PlacementClient",
    plan: MovePlan,
    expected: Expected,
    since: int | None,
) -> str:
    """What shows that the container works; waits for that, and raises `ActionFailed` without it."""
    tells = capabilities(plan.coordinator).tells_what_runs
    if not tells and plan.destination == FORCE_RESTART_LAST_SEEN:
        # Its former process may commit, and report, until it is dead.
        return "its stop was issued: whether it is back Samza's AM doesn't tell"
    began = "has checked in" if tells else "was launched"
    if not expected.is_awaited:
        if expected.is_active:
            return f"it {began}; processing wasn't waited for"
        return f"a standby: it {began}"
    verification = Verification(client, expected, lambda: since or 0)

    def line(left_s: float) -> str:
        seen = f"{expected.sign_missing()}; {seen_now(client, plan.processor)}"
        return (
            f"waiting until {plan.processor} {expected.sign_seen()[0]}: {seen}; {time_left(left_s)}"
        )

    if not wait_for(
        verification.works, timeout_s=plan.verify_timeout_s, log=context.log.info, line=line
    ):
        raise expected.failure()
    if expected.is_active:
        return f"it {began} and processes"
    return f"a standby: it was launched and reports from {expected.reports_from}"
