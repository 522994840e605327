"""The sensor `auto_failover`: one look a tick, one judgement, and the runs and reports that follow from it.

With the job that acknowledges a run of its.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.client import PlacementClient
from samza_dagster.errors import some_of
from samza_dagster.orchestration.config import LONGEST_REASON, PROCESSOR_PATTERN, SaidConfig
from samza_dagster.orchestration.history import HISTORY, KEY
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, in_each_job, job_sensor
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.plans.move import find_processor
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import CASE, GROUP, WHO, WHY, job_tag, job_tags
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.failover import (
    FAIL_OVER,
    MOST_SUSPECTS,
    Decision,
    FailoverVerdict,
    Judgement,
    judge,
)
from samza_dagster.orchestration.watch.observation import Observation, observation_of
from samza_dagster.orchestration.watch.reported import (
    READ_AGAIN,
    Events,
    acknowledgement,
    decision_event,
    history,
    recovered_event,
    text,
    with_events,
)
from samza_dagster.orchestration.watch.settings import AutoFailover

NAME = "auto_failover"
"""The name of the sensor, and the requester of its runs."""
ACKNOWLEDGE = "acknowledge_failover"
PRIORITY = "dagster/priority"


def auto_failover_sensor(
    settings: AutoFailover,
    policies: PlacementPolicies | None = None,
    jobs: Sequence[Any] = (),
    prefix: str = "",
) -> dg.SensorDefinition:
    """Make the sensor with the settings of the component's YAML.

    `jobs` are those that it launches: `fail_over`, `move_with_standby`, `restart_container`.
    """

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return evaluated(one, samza, client, settings)

    policies = policies or PlacementPolicies()
    mode = settings.mode or "shadow under Samza's AM, else advise"
    return job_sensor(
        NAME,
        in_each_job(tick),
        prefix=prefix,
        interval_s=policies.sensor_interval_s,
        running=policies.sensor_running,
        description=f"Handles what a coordinator can't see; mode {mode}.",
        jobs=jobs,
        job_name=FAIL_OVER,
    )


def evaluated(
    one: JobTick, samza: SamzaClientResource, client: PlacementClient, settings: AutoFailover
) -> TickResult:
    """Look, judge and report; the runs that are requested do what is to be done."""
    observation, key = look(client), samza.asset_key(HISTORY)
    kept = FailoverCursor.read(one.cursor, observation.job, one.log.warning)
    kept = kept or FailoverCursor(observation.job)
    now_ms = time.time_ns() // 1_000_000
    events = history(one.instance, key, max(0, kept.read_to - READ_AGAIN))
    judged, new = judged_now(kept.at(now_ms), observation, events, settings, now_ms, key=key)
    tag = job_tag(observation.job, samza.prefix)
    asked = (one for one in judged.advice if one.verdict is FailoverVerdict.ASK)
    runs = [run_request(one, tag, samza.prefix) for one in asked]
    return dg.SensorResult(
        run_requests=runs,
        asset_events=new,
        skip_reason=None if new or runs else dg.SkipReason(quiet(judged, observation)),
        cursor=judged.cursor.to_text(),
    )


def look(client: PlacementClient) -> Observation:
    """Look at the job once."""
    seen = client.look()
    return observation_of(seen.job, seen.lags, seen.input_lags, seen.host_words, seen.unread)


def judged_now(
    cursor: FailoverCursor,
    observation: Observation,
    events: Events,
    settings: AutoFailover,
    now_ms: int,
    *,
    key: dg.AssetKey = KEY,
) -> tuple[Judgement, list[dg.AssetObservation]]:
    """Judge one look, and return what is to be reported of it that `events` don't report yet."""
    cursor, reported = with_events(cursor, events)
    judged, job = judge(cursor, observation, settings, now_ms), observation.job
    new = [decision_event(one, job=job, now_ms=now_ms, key=key) for one in judged.advice]
    new += [recovered_event(suspect, job=job, now_ms=now_ms, key=key) for suspect in judged.over]
    return judged, [event for event in new if text(event, "event") not in reported]


def run_request(decision: Decision, job: str, prefix: str) -> dg.RunRequest:
    """Return the run that carries a decision out; by its key, the case's UUID, there is one of it.

    `job` is its tag `samza/job`.
    """
    suspect = decision.suspect
    why = f"{suspect.kind} of {suspect.subject}: {suspect.why}"[:LONGEST_REASON]
    config = {"processor": decision.processor, "reason": why, "requested_by": NAME}
    if decision.standby:
        config["standby"] = decision.standby
    if decision.action == FAIL_OVER:
        config["execution_id"] = decision.incarnation
    return dg.RunRequest(
        run_key=decision.uuid,
        job_name=named(prefix, decision.action),
        run_config={"ops": {f"plan_{decision.action}": {"config": config}}},
        tags={
            **job_tags(job, decision.action),
            GROUP: f"{job}/{decision.group}",
            WHO: NAME,
            WHY: why,
            CASE: decision.uuid,
            PRIORITY: "10",  # before what people planned, which has 0
        },
    )


def quiet(judged: Judgement, observation: Observation) -> str:
    """Return the skip reason of a tick that has nothing new; it names what could not be read."""
    suspects = judged.cursor.suspects.values()
    if judged.too_many:
        said = (
            f"{judged.too_many} things look bad at once, of more than {MOST_SUSPECTS} none is judged:"
            " nothing is reported or asked until they are fewer"
        )
    elif suspects:
        bad = sorted({f"{s.subject} {s.kind}" for s in suspects})
        said = f"nothing new; looks bad: {some_of(bad)}"
    else:
        said = "all looks well"
    return f"{said}; not known: {some_of(observation.unread)}" if observation.unread else said


class AcknowledgeConfig(SaidConfig):
    """The group that was looked at, by which person, and the finding."""

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
        key=samza.asset_key(HISTORY),
        partition=samza.partition,
    )
    said = str(event.description)
    if config.dry_run:
        said = f"would be {said}"
        context.log.info(said)
    else:
        yield event
    yield dg.Output(said)


@dg.graph(name=ACKNOWLEDGE)
def _acknowledge_graph() -> None:  # one of all components: Dagster takes no two of a name
    """Says that somebody has looked at a group after a failover, so that it may be acted on again."""
    acknowledge()


def acknowledge_job(job: str) -> dg.JobDefinition:
    """Return `acknowledge_failover` of one Samza job."""
    return _acknowledge_graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=ACKNOWLEDGE, executor_def=dg.in_process_executor, tags=job_tags(job, ACKNOWLEDGE)
    )
