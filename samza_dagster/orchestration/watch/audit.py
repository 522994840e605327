"""The runs about what `auto_failover` asked: `audit_failover` and `acknowledge_failover`.

The first watches, explains and records a request that was written within the sensor's tick, and asks
nothing: killed and executed again, it finds the request as it stands. By the second a person has
looked, so that the sensor may act on that group again.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.config import (
    DAY_S,
    LONGEST_REASON,
    PROCESSOR_PATTERN,
    OpConfig,
    SaidConfig,
)
from samza_dagster.orchestration.history.names import HISTORY
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.plans.move import FAIL_OVER, find_processor, host_map
from samza_dagster.orchestration.requests.follow import (
    errors_as_failures,
    failed,
    followed,
    map_metadata,
    outcome_metadata,
)
from samza_dagster.orchestration.requests.step_request import Outcome
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.tags import GROUP, WHO, WHY, job_tags

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.orchestration.watch.cases import Case


JOB = "audit_failover"
ACKNOWLEDGE = "acknowledge_failover"
MOVE_JOB = "move_with_standby"
WHO_ASKS = "auto_failover"


class AuditConfig(OpConfig):
    """Which request to follow, and what led to it."""

    processor: str = Field(
        description="Processor id that the request is for.",
        min_length=1,
        max_length=128,
        pattern=PROCESSOR_PATTERN,
    )
    request: str = Field(description="The request's UUID.", min_length=36, max_length=36)
    action: str = Field(default=FAIL_OVER, max_length=32, description="fail-over or restart.")
    signal: str = Field(default="", max_length=64, description="What looked bad.")
    subject: str = Field(default="", max_length=255, description="Host or processor that did.")
    reason: str = Field(default="", max_length=500, description="Why; run tag samza/why.")
    requested_by: str = Field(default=WHO_ASKS, max_length=128, description="Run tag samza/who.")
    ticket: str = Field(default="", max_length=128, description="Run tag samza/ticket.")
    timeout_s: int = Field(
        default=600, ge=1, le=DAY_S, description="Seconds to watch; the coordinator goes on."
    )


def move_request(job: str, prefix: str, case: "Case", standby: str) -> dg.RunRequest:
    """The run that moves an active onto its standby's host, where no one request does: Samza's AM.

    `job` is its tag `samza/job`; by its key, the case's UUID, there is one of it.
    """
    config = {
        "processor": case.processor,
        "standby": standby,
        "reason": _why(case),
        "requested_by": WHO_ASKS,
    }
    return _run_request(job, prefix, MOVE_JOB, case, {f"plan_{MOVE_JOB}": config})


def run_request(job: str, prefix: str, case: "Case", timeout_s: int = 600) -> dg.RunRequest:
    """The run of one request, `job` its tag `samza/job`; by its key, the UUID, there is one of it."""
    config = {
        "processor": case.processor,
        "request": case.uuid,
        "action": case.action,
        "signal": case.suspect.kind,
        "subject": case.suspect.subject,
        "reason": _why(case),
        "timeout_s": timeout_s,
    }
    ops = {"explain_request": config, "watch_request": config}
    return _run_request(job, prefix, JOB, case, ops, {"samza/request": case.uuid})


def _run_request(
    job: str,
    prefix: str,
    action: str,
    case: "Case",
    ops: Mapping[str, Mapping[str, object]],
    tags: Mapping[str, str] | None = None,
) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=case.uuid,
        job_name=named(prefix, action),
        run_config={"ops": {op: {"config": config} for op, config in ops.items()}},
        tags={
            **job_tags(job, action),
            GROUP: f"{job}/{case.group}",
            WHO: WHO_ASKS,
            WHY: _why(case),
            **(tags or {}),
        },
    )


def _why(case: "Case") -> str:
    return f"{case.suspect.kind} of {case.suspect.subject}: {case.suspect.why}"[:500]


@dg.op(out=dg.Out(str, description="What the rules say, as text."))
def explain_request(
    context: dg.OpExecutionContext, config: AuditConfig, samza: SamzaClientResource
) -> str:
    """Says what looked bad and what the rules say of every host now. Writes nothing."""
    with errors_as_failures():
        before = host_map(samza.client.view())
        rules = _verdicts(samza.client, config)
    text = f"{config.action} of {config.processor}, request {config.request}: {config.reason}"
    context.log.info(text, extra={"request": config.request})
    context.add_output_metadata(
        {
            "what": text,
            "signal": config.signal or "-",
            "subject": config.subject or "-",
            "request": config.request,
            **map_metadata(before, before),
            "rules": rules,
        }
    )
    return text


@dg.op(out=dg.Out(str, description="Where the processor runs in the end."))
def watch_request(
    context: dg.OpExecutionContext, explained: str, config: AuditConfig, samza: SamzaClientResource
) -> str:
    """Follows the request to its end, and records its timeline and the map before and after."""
    with errors_as_failures():
        client = samza.client
        before = host_map(client.view())
        outcome = _followed(context, config, client)
        if not outcome.succeeded:
            raise failed(config.action, outcome, before, client)
        view = client.view()
    after = host_map(view)
    processor = view.processors.get(config.processor)
    host = processor.host if processor is not None and processor.host else ""
    context.log.info(f"{config.processor} runs on {host}: {outcome.message}")
    context.add_output_metadata(
        {
            **outcome_metadata(outcome, "observes what the sensor asked"),
            **map_metadata(before, after),
            "explained": explained,
            "host": host or "-",
        }
    )
    return host


def _followed(
    context: dg.OpExecutionContext, config: AuditConfig, client: "PlacementClient"
) -> Outcome:
    response = client.response(config.request)
    outcome = Outcome(
        step=config.action.replace("-", "_"),
        uuid=config.request,
        attempt=0,
        status="CREATED",  # so that one which ended already is read, and has a timeline
        message="",
        destination=response.destination_host if response else "STANDBY",
    )
    return followed(context, client, config.processor, outcome, timeout_s=config.timeout_s)


def _verdicts(client: "PlacementClient", config: AuditConfig) -> dg.TableMetadataValue:
    columns = ("host", "legal", "rule", "seen", "fix")
    try:
        ruled = (
            client.plan_own(RequestKind.FAIL_OVER, config.processor)
            if config.action == FAIL_OVER
            else client.plan(config.processor, "LAST_SEEN")
        )
    except SamzaDagsterError as error:  # what was asked may have changed what is legal
        seen = ("-", False, error.asked, error.seen, error.fix)
        rows: list[dict[str, Any]] = [dict(zip(columns, seen, strict=True))]
    else:
        rows = [{name: getattr(host, name) for name in columns} for host in ruled.hosts]
    return table(rows, columns)


@dg.graph(name=JOB)
def _audit_failover_graph() -> None:
    """Watches, explains and records a request that auto_failover asked. Asks nothing itself."""
    watch_request(explain_request())


@cache
def audit_job(job: str) -> dg.JobDefinition:
    """`audit_failover` of one Samza job."""
    return _audit_failover_graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=JOB, executor_def=dg.in_process_executor, tags=job_tags(job, JOB)
    )


class AcknowledgeConfig(SaidConfig):
    """Which group was looked at, by whom, and what was found."""

    processor: str = Field(
        description="Processor id; its whole group, active and standbys, is acknowledged.",
        min_length=1,
        max_length=128,
        pattern=PROCESSOR_PATTERN,
    )
    reason: str = Field(
        description="What was found or done, in a few words; run tag samza/why.",
        min_length=1,
        max_length=LONGEST_REASON,
    )
    dry_run: bool = Field(default=False, description="Print what it would lift; write nothing.")


@dg.op(out=dg.Out(str, description="What was acknowledged."))
def acknowledge(
    context: dg.OpExecutionContext, config: AcknowledgeConfig, samza: SamzaClientResource
) -> Iterator[Any]:
    """Lifts the block that a failover left on a group. Asks nothing of any coordinator."""
    from samza_dagster.orchestration.watch.reported import acknowledgement

    with errors_as_failures():
        view = samza.client.view()
        find_processor(view, config.processor)
    event = acknowledgement(
        samza.job,
        view.group_of(config.processor),
        at_ms=time.time_ns() // 1_000_000,
        who=config.requested_by,
        why=config.reason,
        ticket=config.ticket,
        ident=context.run_id,
        key=samza.asset_key(HISTORY),
        only_for=samza.tag,
        partition=samza.partition,
    )
    text = str(event.description)
    if config.dry_run:
        text = f"would be {text}"
        context.log.info(text)
    else:
        yield event
    yield dg.Output(text)


@dg.graph(name=ACKNOWLEDGE)
def _acknowledge_graph() -> None:
    """Says that somebody has looked at a group after a failover, so that it may be acted on again."""
    acknowledge()


def acknowledge_job(job: str) -> dg.JobDefinition:
    """`acknowledge_failover` of one Samza job."""
    return _acknowledge_graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=ACKNOWLEDGE, executor_def=dg.in_process_executor, tags=job_tags(job, ACKNOWLEDGE)
    )
