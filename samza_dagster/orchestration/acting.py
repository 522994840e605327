"""The ops that act: the standby makes room; reserve, stop, move; the end is verified."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import ActionFailed
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN, STANDBY
from samza_dagster.orchestration.extra_standby import settled
from samza_dagster.orchestration.follow import errors_as_failures, map_metadata, outcome_metadata
from samza_dagster.orchestration.moves import (
    START_STANDBY,
    MovePlan,
    has_reported_from,
    host_map,
    not_reported,
)
from samza_dagster.orchestration.phases import Phases
from samza_dagster.orchestration.requests import Outcome
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import (
    first_commit_seconds,
    phase_seconds,
    timeline_shown,
    timeline_table,
)
from samza_dagster.orchestration.waits.heartbeat import Heartbeat, seen_now, time_left

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ProcessorView
    from samza_dagster.orchestration.refusing import Row

POLL_S = 0.5


@dg.op(out=dg.Out(Outcome, description="The standby's request, or the one of the whole move."))
def move_standby_away(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> Outcome:
    """Frees the host of the standby, which goes elsewhere.

    On our coordinator it asks for the whole move, or fail-over, as one crash-proof
    action and ends when the standby is down; else it moves the standby by a request of
    its own, to a host away from source and destination.
    """
    return carry_out(context, samza, plan, Phases.room_made)


@dg.op(out=dg.Out(Outcome, description="The request, its destination reserved."))
def reserve(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    samza: SamzaClientResource,
    begun: Outcome | None = None,
) -> Outcome:
    """Reserves the destination. On our coordinator it is held and nothing is stopped yet."""
    return carry_out(context, samza, plan, lambda phases: phases.reserved(begun))


@dg.op(out=dg.Out(Outcome, description="The request, its container stopped."))
def stop(
    context: dg.OpExecutionContext, plan: MovePlan, reserved: Outcome, samza: SamzaClientResource
) -> Outcome:
    """Commits what is held: the container is stopped, which can't be taken back."""
    return carry_out(context, samza, plan, lambda phases: phases.stopped(reserved))


@dg.op(out=dg.Out(Outcome, description="How the container's request ended."))
def move(
    context: dg.OpExecutionContext, plan: MovePlan, stopped: Outcome, samza: SamzaClientResource
) -> Outcome:
    """The container starts on its destination and checks in there."""
    return carry_out(context, samza, plan, lambda phases: phases.moved(stopped))


def carry_out(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: MovePlan,
    work: Callable[[Phases], Outcome],
) -> Outcome:
    """Carries out one phase of the plan, and tells it in the op's metadata."""
    apart = context.op.name == "move_standby_away" and plan.destination != STANDBY
    about = plan.standby if apart and plan.standby else plan.processor

    def explain() -> "Sequence[Row]":
        from samza_dagster.orchestration.refusing import hosts_for, hosts_for_a_new_standby

        if plan.kind == START_STANDBY:
            return hosts_for_a_new_standby(samza.client, about)
        return hosts_for(samza.client, about)

    with settled(context, samza, plan, plan.standby), errors_as_failures(explain):
        phases = Phases(context, samza, plan)
        outcome = work(phases)
    context.add_output_metadata(outcome_metadata(outcome, phases.role))
    return outcome


@dg.op(out=dg.Out(str, description="Where the container runs."))
def verify_placement(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    outcomes: list[Outcome],
    samza: SamzaClientResource,
) -> str:
    """Checks that the container runs where it was sent and, an active, that it processes again."""
    moved = outcomes[-1]
    with errors_as_failures():
        client = samza.client
        started = time.monotonic()
        there = _check_running(client.view(), plan)
        verified = _processes(context, client, plan, there, moved.since)
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
    context.add_output_metadata(
        {
            "timeline": timeline_shown(moments),
            **map_metadata(plan.before, after),
            "timeline_table": timeline_table(moments),
            **seconds,
            "verify_seconds": round(time.monotonic() - started, 3),
            "verified": verified,
            "execution_id": processor.execution_id or "-",
            **{f"{o.step}_request": o.uuid for o in outcomes if o.uuid},
        }
    )
    context.log.info(f"{plan.processor} runs on {processor.host}; {verified}")
    return processor.host or ""


def _check_running(view: "JobView", plan: MovePlan) -> "ProcessorView":
    """The processor as it runs at the destination; raises `ActionFailed` when it doesn't."""
    processor = view.processors.get(plan.processor)
    if processor is None or processor.state not in ("running", "last-seen"):
        raise ActionFailed(
            f"processor {plan.processor} runs after its move",
            seen="it is gone" if processor is None else f"it is {processor.state}",
            fix="look at the container's log on its host",
        )
    return _on_its_host(processor, plan)


def _on_its_host(processor: "ProcessorView", plan: MovePlan) -> "ProcessorView":
    wanted = plan.expected_host
    if wanted is not None and processor.host != wanted:
        raise ActionFailed(
            f"processor {plan.processor} runs on {wanted}",
            seen=f"it runs on {processor.host}",
            fix="something has moved it since: look at placement_history; a new run makes a new plan",
        )
    return processor


def wait_for(
    true: Callable[[], bool],
    *,
    timeout_s: float,
    beat: Callable[[float], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether the condition came true within `timeout_s`; `beat` gets the seconds left at each look."""
    deadline = monotonic() + timeout_s
    while not true():
        now = monotonic()
        if now >= deadline:
            return False
        beat(deadline - now)
        sleep(POLL_S)
    return True


def _processes(
    context: dg.OpExecutionContext,
    client: "PlacementClient",
    plan: MovePlan,
    processor: "ProcessorView",
    since: int | None,
) -> str:
    tells = capabilities(plan.coordinator).tells_what_runs
    if not tells and plan.destination == FORCE_RESTART_LAST_SEEN:
        # Its former process may commit, and report, until it is dead.
        return "its stop was issued: whether it is back Samza's AM doesn't tell"
    began = "has checked in" if tells else "was launched"
    beat = Heartbeat(context.log.info, lambda: round(time.monotonic() * 1000))
    if str(processor.mode).lower() != "active":
        moved = plan.verify_timeout_s and processor.host not in (None, plan.source_host)
        if tells or not moved or plan.any_host:
            return f"a standby: it {began}"
        return _reports(client, plan, str(processor.host), beat)
    if not plan.verify_timeout_s:
        return f"it {began}; processing wasn't waited for"
    # A run of a former release left no place: it runs, so what is committed from now on is its own.
    place = client.checkpoints_end() if since is None else since

    def tell(left_s: float) -> None:
        def line() -> str:
            seen = f"no input offset grew in a commit yet; {seen_now(client, plan.processor)}"
            return f"waiting until {plan.processor} processes: {seen}; {time_left(left_s)}"

        beat(plan.processor, line)

    if wait_for(
        lambda: client.processing(plan.processor, place).processing,
        timeout_s=plan.verify_timeout_s,
        beat=tell,
    ):
        return f"it {began} and processes"
    raise ActionFailed(
        f"processor {plan.processor} processes within {plan.verify_timeout_s:g} s of its start",
        seen="no input offset grew in a commit since then",
        fix="look at the container's log; if its input is idle, re-execute the whole run with"
        " verify_timeout_s 0 (from failure it would keep its plan)",
    )


def _reports(client: "PlacementClient", plan: MovePlan, host: str, beat: Heartbeat) -> str:
    """Waits until a standby that Samza's AM has launched elsewhere writes that it is there."""
    pid = plan.processor

    def tell(left_s: float) -> None:
        beat(pid, lambda: f"waiting until {pid} reports from {host}; {time_left(left_s)}")

    if wait_for(
        lambda: has_reported_from(client.view(), pid, host),
        timeout_s=plan.verify_timeout_s,
        beat=tell,
    ):
        return f"a standby: it was launched and reports from {host}"
    raise not_reported(pid, host, plan.verify_timeout_s)
