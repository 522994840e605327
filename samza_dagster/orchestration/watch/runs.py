"""The runs that carry out what `auto_failover` decided, and the job that acknowledges one."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.config import (
    LONGEST_REASON,
    PROCESSOR_PATTERN,
    SaidConfig,
)
from samza_dagster.orchestration.history.names import HISTORY
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.plans.move import find_processor
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import CASE, GROUP, WHO, WHY, job_tags
from samza_dagster.orchestration.watch.failover import Decision
from samza_dagster.orchestration.watch.remedies import FAIL_OVER
from samza_dagster.orchestration.watch.reported import acknowledgement

ACKNOWLEDGE = "acknowledge_failover"
WHO_ASKS = "auto_failover"
PRIORITY = "dagster/priority"


def run_request(decision: Decision, job: str, prefix: str) -> dg.RunRequest:
    """Return the run that carries a decision out; by its key, the case's UUID, there is one of it.

    `job` is its tag `samza/job`.
    """
    case, suspect = decision.case, decision.case.suspect
    why = f"{suspect.kind} of {suspect.subject}: {suspect.why}"[:LONGEST_REASON]
    config = {"processor": case.processor, "reason": why, "requested_by": WHO_ASKS}
    if decision.standby:
        config["standby"] = decision.standby
    if case.action == FAIL_OVER:
        config["execution_id"] = case.incarnation
    return dg.RunRequest(
        run_key=case.uuid,
        job_name=named(prefix, case.action),
        run_config={"ops": {f"plan_{case.action}": {"config": config}}},
        tags={
            **job_tags(job, case.action),
            GROUP: f"{job}/{case.group}",
            WHO: WHO_ASKS,
            WHY: why,
            CASE: case.uuid,
            PRIORITY: "10",  # before what people planned, which has 0
        },
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
