"""Metadata of an op's request: its timeline and phases, and why it failed or was refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

import dagster as dg

from samza_dagster.client import HostVerdict, PlacementClient
from samza_dagster.errors import Refused, SamzaDagsterError
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.plans.move import (
    HostRow,
    Kind,
    find_processor,
    host_map,
    standbys_of,
)
from samza_dagster.orchestration.requests.step_request import STOPPING, Moment, StepRequest
from samza_dagster.orchestration.show.pictures import picture
from samza_dagster.orchestration.show.tables import (
    hosts_table,
    map_shown,
    map_table,
    table,
    table_within,
)
from samza_dagster.orchestration.show.timeline import timeline_svg

COLUMNS = ("container", "host", "legal", "rule", "seen", "fix")
MOST_BYTES = 200_000
"""Of the table: an event has the map of hosts beside it, and fewer than 300 kB in all."""
Row = Mapping[str, object]
Explain = Callable[[], Sequence[Row]]
Metadata = dict[str, dg.MetadataValue | str | float | int | bool]
TO_FIRST_COMMIT = "stop_to_first_commit_seconds"
"""Ends the name of a metadata value: for how long a moved active made no progress."""
_NO_START = (
    "STOPPING lasts until the container has checked in: no answer comes when its start begins."
)


@contextmanager
def errors_as_failures(explain: Explain | None = None) -> Generator[None]:
    """Turns an error of ours into a `dg.Failure` that says what to do; not retried.

    A refusal shows of each host what the rules say, by its own rows or by those of `explain`.
    """
    try:
        yield
    except SamzaDagsterError as error:
        parts = {"asked": error.asked, "seen": error.seen, "fix": error.fix}
        raise dg.Failure(
            description=str(error),
            metadata={
                **{part: text for part, text in parts.items() if text},
                "error": type(error).__name__,
                **_hosts_shown(error, explain),
            },
            allow_retries=False,
        ) from error


def failed(
    op: str, outcome: StepRequest, before: Sequence[HostRow], client: PlacementClient
) -> dg.Failure:
    """Return the failure of an op whose request ended badly, with everything known about it.

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
    """Return the metadata of a request that every step shows."""
    return {
        "request": uuid,
        "timeline": timeline_shown(moments),  # a line: what is below a table is folded away
        "timeline_table": timeline_table(moments),
    }


def outcome_metadata(outcome: StepRequest, role: str) -> Metadata:
    """The request, its timeline and the seconds of its phases; `role`: did this op ask?"""
    return {
        "role": role or "nothing to ask",
        **request_metadata(outcome.uuid, outcome.timeline),
        "stage": outcome.stage,
        "status": outcome.status,
        "destination": outcome.destination or "",
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


def timeline_shown(moments: Sequence[Moment]) -> dg.MarkdownMetadataValue:
    """A picture of every status that was read."""
    drawn = picture(timeline_svg([(m.stage, m.status, m.at_ms) for m in moments]), "timeline")
    stops = any(m.stage == STOPPING for m in moments)
    return dg.MetadataValue.md(f"{drawn}\n\n{_NO_START}" if stops else drawn)


def timeline_table(moments: Sequence[Moment]) -> dg.TableMetadataValue:
    """Every status that was read, with ms since its request."""
    rows = [
        {
            "step": m.step,
            "stage": m.stage,
            "status": m.status,
            "message": m.message,
            "ms since request": m.since_request_ms,
        }
        for m in moments
    ]
    return table(rows, ("step", "stage", "status", "message", "ms since request"))


def phase_seconds(outcome: StepRequest) -> dict[str, float]:
    """Seconds of a request's phases, and in all.

    `reserve` ends where the container's stop begins, with what its standby took before
    that; `stop_and_start` ends at the outcome.
    """
    if not outcome.timeline:
        return {}
    stop = next((m for m in outcome.timeline if m.stage == STOPPING), None)
    total = outcome.timeline[-1].since_request_ms
    seconds = {f"{outcome.step}_seconds": total / 1000}
    if stop is not None:
        seconds[f"{outcome.step}_reserve_seconds"] = stop.since_request_ms / 1000
        seconds[f"{outcome.step}_stop_and_start_seconds"] = (total - stop.since_request_ms) / 1000
    return seconds


def first_commit_seconds(outcome: StepRequest, committed_ms: int) -> dict[str, float]:
    """Seconds from where an active's stop begins to its successor's first commit.

    Up to the check-in by the coordinator's clock; from there by the run's, which saw the commit
    at `committed_ms`. Nothing where the stop, or the check-in, wasn't seen.
    """
    down_s = phase_seconds(outcome).get(f"{outcome.step}_stop_and_start_seconds")
    if down_s is None or outcome.since_ms is None:
        return {}
    restore_s = max(0, committed_ms - outcome.since_ms) / 1000
    return {f"{outcome.step}_{TO_FIRST_COMMIT}": down_s + restore_s}


def rows_of(container: str, hosts: Iterable[HostVerdict]) -> list[Row]:
    """The rules' word on each host as a place of one container."""
    return [
        {
            "container": container,
            "host": verdict.host,
            "legal": verdict.legal,
            "rule": verdict.rule,
            "seen": verdict.seen,
            "fix": verdict.fix or "-",
        }
        for verdict in hosts
    ]


def new_standby(active: str) -> str:
    """How a standby is named that has no id yet."""
    return f"one more standby of {active}"


def hosts_for(client: PlacementClient, processor: str, kind: Kind = Kind.PLACE) -> list[Row]:
    """Return for each host whether a container, another standby of an active, or its failover may go there.

    Where there is no standby to fail over to, why not and what would help.
    """
    if kind is Kind.PLACE:
        return rows_of(processor, client.plan(processor, LAST_SEEN).hosts)
    if kind is Kind.START_STANDBY:
        ruled = client.plan_own(RequestKind.START_STANDBY, processor)
        return rows_of(new_standby(processor), ruled.hosts)
    view = client.view()
    found, own = find_processor(view, processor), view.capabilities.has_own_requests
    if not own or view.is_standby(processor) or standbys_of(view, found):
        return rows_of(processor, client.plan_own(RequestKind.FAIL_OVER, processor).hosts)
    return [
        {
            **row,
            "container": processor,
            "legal": False,
            "rule": "a failover goes to the host of a standby",
            "seen": f"no standby of {processor} is there; one more: {row['rule']}, {row['seen']}",
            "fix": f"spin_up_standby of {processor} to {row['host']}"
            if row["legal"]
            else row["fix"],
        }
        for row in hosts_for(client, processor, Kind.START_STANDBY)
    ]


def _hosts_shown(error: SamzaDagsterError, explain: Explain | None) -> dict[str, dg.MetadataValue]:
    """The table of a refusal; nothing of another error, and where nothing can be said of hosts."""
    if not isinstance(error, Refused):
        return {}
    rows = error.hosts
    if not rows and explain is not None:
        try:
            rows = explain()
        except SamzaDagsterError:  # of a container that isn't there, say: the refusal tells that
            rows = ()
    return {"hosts_table": table_within(rows, COLUMNS, MOST_BYTES)} if rows else {}
