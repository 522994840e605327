"""One request as a step of a run: asked once, each status logged, each end told truthfully."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import dagster as dg

from samza_dagster.errors import DeadlineExceeded, SamzaDagsterError
from samza_dagster.orchestration.moves import HostRow, MovePlan, host_map
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.requests import Asked, Moment, Outcome, follow
from samza_dagster.orchestration.tables import (
    map_markdown,
    map_table,
    phase_seconds,
    timeline_markdown,
    timeline_table,
)

Metadata = dict[str, dg.MetadataValue | str | float | int | bool]


def root_run_id(context: dg.OpExecutionContext) -> str:
    """The first run of the chain of re-executions that this run belongs to."""
    return context.run.root_run_id or context.run.run_id


@contextmanager
def errors_as_failures() -> Generator[None]:
    """Turns an error of ours into a `dg.Failure` that says what to do; not retried."""
    try:
        yield
    except SamzaDagsterError as error:
        told = {"asked": error.asked, "seen": error.seen, "fix": error.fix}
        raise dg.Failure(
            description=str(error),
            metadata={
                **{part: text for part, text in told.items() if text},
                "error": type(error).__name__,
            },
            allow_retries=False,
        ) from error


def ask_and_follow(
    context: dg.OpExecutionContext,
    client: Placement,
    asked: Asked,
    plan: MovePlan,
    *,
    step: str,
    processor_id: str,
    choose_destination: Callable[[], str],
) -> Outcome:
    """Asks unless it was asked before; raises `dg.Failure` on any end but SUCCEEDED.

    When the run is cancelled while it waits, the log says what is in flight; the
    coordinator goes on with it.
    """
    moments: list[Moment] = []

    def see(moment: Moment) -> None:
        moments.append(moment)
        context.log.info(
            f"{step}: {moment.status}: {moment.message} (+{moment.since_request_ms} ms)"
        )

    destination = asked.destination or choose_destination()
    if asked.destination is None:
        context.log.info(
            f"{step}: asking processor {processor_id} → {destination},"
            f" request {asked.uuid}, attempt {asked.attempt + 1}"
        )
    else:
        stands = asked.response.status_code.value if asked.response else "not answered yet"
        context.log.info(f"{step}: request {asked.uuid} was asked before ({stands}): following it")
    try:
        outcome = follow(
            client,
            asked,
            step=step,
            processor_id=processor_id,
            destination=destination,
            request_expiry_s=plan.request_expiry_s,
            timeout_s=plan.timeout_s,
            on_moment=see,
        )
    except DeadlineExceeded as error:
        raise dg.Failure(
            description=f"{step}: no outcome of request {asked.uuid} in {plan.timeout_s:g} s;"
            f" the coordinator goes on with it: re-execute this run from failure to follow ({error})",
            metadata=request_metadata(asked.uuid, moments),
            allow_retries=False,
        ) from error
    except dg.DagsterExecutionInterruptedError:
        last = moments[-1].status if moments else "not answered yet"
        context.log.warning(
            f"{step}: cancelled while request {asked.uuid} (processor {processor_id} →"
            f" {destination}, {last}) is in flight. The coordinator goes on with it;"
            " re-execute this run from failure to follow it."
        )
        raise
    if not outcome.succeeded:
        after = host_map(client.view())
        raise dg.Failure(
            description=f"{step}: {outcome.status}: {outcome.message}",
            metadata={
                **request_metadata(asked.uuid, moments),
                "status": outcome.status,
                "message": outcome.message,
                "hosts_and_containers": dg.MetadataValue.md(map_markdown(plan.before, after)),
            },
            allow_retries=False,
        )
    return outcome


def request_metadata(uuid: str, moments: Sequence[Moment]) -> Metadata:
    """What every step shows of its request."""
    return {
        "request": uuid,
        "timeline_table": timeline_table(moments),  # tables are shown at once, Markdown on a click
        "timeline": dg.MetadataValue.md(timeline_markdown(moments)),
    }


def outcome_metadata(outcome: Outcome) -> Metadata:
    """The request, its timeline and the seconds of its phases."""
    return {
        **request_metadata(outcome.uuid, outcome.timeline),
        "status": outcome.status,
        "destination": outcome.destination,
        "attempt": outcome.attempt + 1,
        **phase_seconds(outcome),
    }


def map_metadata(before: Sequence[HostRow], after: Sequence[HostRow]) -> Metadata:
    """The map of hosts and containers before and after."""
    return {
        "hosts_and_containers_table": map_table(before, after),
        "hosts_and_containers": dg.MetadataValue.md(map_markdown(before, after)),
    }
