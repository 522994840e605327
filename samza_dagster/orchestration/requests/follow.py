"""One request as a step of a run: asked once, each status logged, each end told truthfully."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.plans.move import HostRow, host_map
from samza_dagster.orchestration.requests.heartbeat import Heartbeat, seen_now, time_left
from samza_dagster.orchestration.requests.outcomes import (
    phase_seconds,
    timeline_shown,
    timeline_table,
)
from samza_dagster.orchestration.requests.step_request import ENDED, Moment, Outcome, follow
from samza_dagster.orchestration.show.tables import hosts_table, map_shown, map_table
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.orchestration.requests.refusing import Explain

Metadata = dict[str, dg.MetadataValue | str | float | int | bool]


@contextmanager
def errors_as_failures(explain: Explain | None = None) -> Generator[None]:
    """Turns an error of ours into a `dg.Failure` that says what to do; not retried.

    A refusal shows of each host what the rules say, by its own rows or by those of `explain`.
    """
    try:
        yield
    except SamzaDagsterError as error:
        from samza_dagster.orchestration.requests.refusing import shown

        parts = {"asked": error.asked, "seen": error.seen, "fix": error.fix}
        raise dg.Failure(
            description=str(error),
            metadata={
                **{part: text for part, text in parts.items() if text},
                "error": type(error).__name__,
                **shown(error, explain),
            },
            allow_retries=False,
        ) from error


def followed(
    context: dg.OpExecutionContext,
    client: PlacementClient,
    processor_id: str,
    request: Outcome,
    *,
    until: str = ENDED,
    timeout_s: float,
) -> Outcome:
    """The request of a container as `requests.follow` gives it; the run's log has each status."""

    def moment(one: Moment) -> None:
        log(f"{op}: {one.stage}: {one.status}: {one.message} (+{one.since_request_ms} ms)")

    def look(status: str, left_s: float) -> None:
        uuid = request.uuid
        beat("", lambda: f"{op}: {waiting_line(client, processor_id, uuid, status, left_s)}")

    log = partial(context.log.info, extra={"request": request.uuid})
    op, beat = context.op.name, Heartbeat(log, elapsed_ms)
    beat.begin("")
    return follow(
        client,
        request,
        until=until,
        timeout_s=timeout_s,
        on_moment=moment,
        beat=look,
        on_notice=context.log.warning,
    )


def waiting_line(
    client: PlacementClient, processor_id: str, uuid: str, status: str, left_s: float
) -> str:
    """A wait for a request: its status, what is seen of its container, the time left."""
    seen = seen_now(client, processor_id, uuid)
    return f"waiting: request {uuid} is {status}; {seen}; {time_left(left_s)}"


def failed(
    op: str, outcome: Outcome, before: Sequence[HostRow], client: PlacementClient
) -> dg.Failure:
    """The failure of an op whose request ended badly, with what there is to know.

    Raises nothing of ours: a job that can't be read must not hide why the op failed.
    """
    metadata: Metadata = {
        **request_metadata(outcome.uuid, outcome.timeline),
        "status": outcome.status,
        "message": outcome.message,
        **map_after_failure(before, client),
    }
    if outcome.hold:
        metadata["fix"] = (
            "re-execute this run from failure: it reserves anew. A hold lasts request_expiry_s"
        )
    return dg.Failure(
        description=f"{op}: {outcome.status}: {outcome.message}",
        metadata=metadata,
        allow_retries=False,
    )


def request_metadata(uuid: str, moments: Sequence[Moment]) -> Metadata:
    """What every step shows of its request."""
    return {
        "request": uuid,
        "timeline": timeline_shown(moments),  # a line: what is below a table is folded away
        "timeline_table": timeline_table(moments),
    }


def outcome_metadata(outcome: Outcome, role: str) -> Metadata:
    """The request, its timeline and the seconds of its phases; `role`: did this op ask?"""
    return {
        "role": role or "nothing to ask",
        **request_metadata(outcome.uuid, outcome.timeline),
        "stage": outcome.stage,
        "status": outcome.status,
        "destination": outcome.destination,
        "attempt": outcome.attempt + 1,
        **phase_seconds(outcome),
    }


def map_metadata(before: Sequence[HostRow], after: Sequence[HostRow]) -> Metadata:
    """The map of hosts and containers before and after."""
    return {
        "hosts_and_containers": map_shown(before, after),
        "hosts_and_containers_table": map_table(before, after),
    }


def map_after_failure(before: Sequence[HostRow], client: PlacementClient) -> Metadata:
    """The same with the map as it is now; the one before alone while the job can't be read."""
    try:
        return map_metadata(before, host_map(client.view()))
    except SamzaDagsterError as error:
        return {
            "hosts_and_containers": map_shown(before),
            "hosts_and_containers_table": hosts_table(before),
            "hosts_and_containers_now": f"not known: {error}",
        }
