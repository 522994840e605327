"""The ops that act: the standby makes room, the container moves, the end is verified."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable

import dagster as dg

from samza_dagster.errors import ActionFailed
from samza_dagster.model.naming import DESTINATION_WORDS
from samza_dagster.orchestration.follow import (
    ask_and_follow,
    errors_as_failures,
    map_metadata,
    outcome_metadata,
    root_run_id,
)
from samza_dagster.orchestration.moves import MovePlan, host_for_standby, host_map
from samza_dagster.orchestration.ports import Placement, ProcessorView
from samza_dagster.orchestration.requests import Outcome, standing
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import phase_seconds, timeline_markdown, timeline_table

RELOCATE = "relocate_standby"
MOVE = "move"
POLL_S = 0.5


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def move_standby_away(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> Outcome:
    """Moves the standby off the destination, to a host away from source and destination."""
    with errors_as_failures():
        client = samza.client
        standby = plan.standby
        assert standby is not None
        asked = standing(client, root_run_id(context), RELOCATE, standby)
        view = client.view()
        if asked.destination is None and view.processors[standby].host != plan.destination:
            context.log.info(f"standby {standby} isn't on {plan.destination}: nothing to ask")
            return _nothing(RELOCATE, view.processors[standby].host)
        outcome = ask_and_follow(
            context,
            client,
            asked,
            plan,
            step=RELOCATE,
            processor_id=standby,
            choose_destination=lambda: host_for_standby(
                view, standby, plan.source_host, plan.destination, plan.allowed_hosts
            ),
        )
    context.add_output_metadata(outcome_metadata(outcome))
    return outcome


@dg.op(
    ins={"after": dg.In(dg.Nothing, description="What must have ended before.")},
    out=dg.Out(Outcome, description="How the container's request ended."),
)
def place_container(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> Outcome:
    """Reserves the destination, stops the container, starts it there: one request."""
    with errors_as_failures():
        client = samza.client
        asked = standing(client, root_run_id(context), MOVE, plan.processor)
        host = client.view().processors[plan.processor].host
        if asked.destination is None and plan.standby is not None and host == plan.destination:
            context.log.info(f"{plan.processor} is on {host} already: nothing to ask")
            return _nothing(MOVE, host)
        outcome = ask_and_follow(
            context,
            client,
            asked,
            plan,
            step=MOVE,
            processor_id=plan.processor,
            choose_destination=lambda: plan.destination,
        )
    context.add_output_metadata(outcome_metadata(outcome))
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
        processor = check_running(client, plan)
        since_ms = moved.timeline[-1].at_ms if moved.timeline else time.time_ns() // 1_000_000
        verified = _processes(context, client, plan, processor, since_ms)
        after = host_map(client.view())
    moments = [moment for outcome in outcomes for moment in outcome.timeline]
    seconds = {k: v for outcome in outcomes for k, v in phase_seconds(outcome).items()}
    context.add_output_metadata(
        {
            **map_metadata(plan.before, after),
            "timeline_table": timeline_table(moments),
            "timeline": dg.MetadataValue.md(timeline_markdown(moments)),
            **seconds,
            "verify_seconds": round(time.monotonic() - started, 3),
            "verified": verified,
            "execution_id": processor.execution_id or "-",
            **{f"{o.step}_request": o.uuid for o in outcomes if o.uuid},
        }
    )
    context.log.info(f"{plan.processor} runs on {processor.host}; {verified}")
    return processor.host or ""


def check_running(client: Placement, plan: MovePlan) -> ProcessorView:
    """The processor as it runs at the destination; raises `ActionFailed` when it doesn't."""
    processor = client.view().processors.get(plan.processor)
    wanted = None if plan.destination in DESTINATION_WORDS else plan.destination
    if processor is None or processor.state not in ("running", "last-seen"):
        raise ActionFailed(
            f"processor {plan.processor} runs after its move",
            seen="it is gone" if processor is None else f"it is {processor.state}",
            fix="look at the container's log on its host",
        )
    if wanted is not None and processor.host != wanted:
        raise ActionFailed(
            f"processor {plan.processor} runs on {wanted}",
            seen=f"it runs on {processor.host}",
            fix="another action moved it since; look at placement_history",
        )
    return processor


def wait_for(
    true: Callable[[], bool],
    *,
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether the condition came true within `timeout_s`."""
    deadline = monotonic() + timeout_s
    while not true():
        if monotonic() >= deadline:
            return False
        sleep(POLL_S)
    return True


def _processes(
    context: dg.OpExecutionContext,
    client: Placement,
    plan: MovePlan,
    processor: ProcessorView,
    since_ms: int,
) -> str:
    if str(processor.mode).lower() != "active":
        return "a standby: it has checked in"
    if not plan.verify_timeout_s:
        return "it has checked in; processing wasn't waited for"
    context.log.info(f"waiting until {plan.processor} processes")
    if wait_for(
        lambda: client.processing(plan.processor, since_ms).processing,
        timeout_s=plan.verify_timeout_s,
    ):
        return "it has checked in and processes"
    raise ActionFailed(
        f"processor {plan.processor} processes within {plan.verify_timeout_s:g} s of its start",
        seen="no input offset grew in a commit since then",
        fix="look at the container's log, or give verify_timeout_s 0 if its input is idle",
    )


def _nothing(step: str, host: str | None) -> Outcome:
    return Outcome(
        step=step,
        uuid="",
        attempt=0,
        status="SUCCEEDED",
        message="nothing to ask",
        destination=host or "",
        seconds=0.0,
        asked=False,
    )
