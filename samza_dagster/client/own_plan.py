"""What a request of our own would do, step by step. Pure."""

from __future__ import annotations

from samza_dagster.client.checks import find_deployment, find_processor
from samza_dagster.client.own_checks import (
    check_fail_over,
    check_start_standby,
    check_stop_standby,
    new_standby,
    standbys_of,
)
from samza_dagster.client.plan import Plan, waiting
from samza_dagster.client.verdicts import judge_all
from samza_dagster.client.views import JobView, ProcessorView
from samza_dagster.errors import InvalidInput
from samza_dagster.model.naming import ANY_HOST, DESTINATION_WORDS, STANDBY
from samza_dagster.model.own_requests import RequestKind


def make_own_plan(
    view: JobView, kind: RequestKind, processor_id: str, destination: str = ANY_HOST
) -> Plan:
    """The plan of a start-standby, stop-standby or fail-over; a refused one says why.

    Raises `InvalidInput` for an unknown processor.
    """
    processor = find_processor(view, processor_id)
    subject, steps, notices, refusal = processor, (), (), None
    try:
        if kind is RequestKind.START_STANDBY:
            active, subject, notices = check_start_standby(view, processor_id, destination)
            steps = _start_steps(active, subject, destination)
        elif kind is RequestKind.STOP_STANDBY:
            subject = check_stop_standby(view, processor_id)
            steps = (
                f"it stops {subject.processor_id} on {subject.host or 'no host'}",
                f"{subject.processor_id} is removed from the job once it is seen dead",
            )
        else:
            destination = STANDBY
            subject, notices = check_fail_over(view, processor_id)
            steps = _fail_over_steps(view, subject)
    except InvalidInput as error:
        refusal = str(error)
        if kind is RequestKind.START_STANDBY and not processor.processor_id.count("-"):
            subject = new_standby(view, processor)
    first = waiting(view, processor)
    if first and refusal is None:
        steps = (f"wait for {len(first)} earlier action(s) of the group", *steps)
    named = kind is RequestKind.START_STANDBY and destination not in DESTINATION_WORDS
    return Plan(
        processor_id=subject.processor_id,
        mode=subject.mode,
        destination=destination if kind is not RequestKind.STOP_STANDBY else subject.host or "-",
        host=destination if named and refusal is None else None,
        source_host=subject.host,
        deployment_id=find_deployment(view, None),
        coordinator=view.coordinator,
        steps=steps,
        hosts=judge_all(view, subject),
        waits_for=first,
        notices=notices,
        refusal=refusal,
        kind=kind.value,
    )


def _start_steps(
    active: ProcessorView, standby: ProcessorView, destination: str
) -> tuple[str, ...]:
    where = destination if destination != ANY_HOST else "the host that the coordinator reserves"
    return (
        f"the coordinator reserves memory and cores on {where}; if it can't, nothing was changed",
        f"it starts {standby.processor_id}, which restores what {active.processor_id} has written",
    )


def _fail_over_steps(view: JobView, active: ProcessorView) -> tuple[str, ...]:
    pid = active.processor_id
    names = ", ".join(f"{s.processor_id} on {s.host}" for s in standbys_of(view, active) if s.host)
    return (
        f"the coordinator stops the standby soonest ready, of {names}",
        f"it reserves its host for {pid}, stops {pid} on {active.host or 'no host'}, starts it there",
        "the standby starts on any other legal host",
    )
