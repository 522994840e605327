"""The steps of a request, and a verdict on every host. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from samza_dagster.client.checks import (
    Permitted,
    check_budget,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.client.own_checks import (
    check_fail_over,
    check_start_standby,
    check_stop_standby,
    new_standby,
    require_our_coordinator,
)
from samza_dagster.client.verdicts import HostVerdict, judge_all, peers_of
from samza_dagster.client.views import JobView, ProcessorView, View
from samza_dagster.errors import InvalidInput
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import (
    ANY_HOST,
    DESTINATION_WORDS,
    FORCE_RESTART_LAST_SEEN,
    STANDBY,
)
from samza_dagster.model.own_requests import RequestKind


@dataclass(frozen=True)
class Plan(View):
    """The plan of a request. Nothing was written.

    `refusal` is None when the request would be written; `waits_for` are the UUIDs
    of actions of the same group that come first.
    """

    processor_id: str
    mode: TaskMode
    destination: str
    host: str | None
    source_host: str | None
    deployment_id: str
    coordinator: str
    steps: tuple[str, ...]
    hosts: tuple[HostVerdict, ...]
    waits_for: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    refusal: str | None = None
    kind: str = "place"


def make_plan(
    view: JobView,
    processor_id: str,
    destination: str,
    deployment_id: str | None = None,
    *,
    hold: bool = False,
    **permitted: Unpack[Permitted],
) -> Plan:
    """The plan of a placement; a destination that is refused is a plan that says why.

    Raises `InvalidInput` for an unknown processor or deployment.
    """
    processor = find_processor(view, processor_id)
    deployment = find_deployment(view, deployment_id)
    verdicts = judge_all(view, processor)
    refusal: str | None = None
    notices: tuple[str, ...] = ()
    host: str | None = None
    try:
        if hold:
            require_our_coordinator(view, f"place {processor_id} --hold", RequestKind.PLACE)
        legal = legal_destination(view, processor, destination, verdicts, **permitted)
        host, notices = legal.host, legal.notices
        if destination == STANDBY:
            verdicts = tuple(_once_left(v) if v.host == host else v for v in verdicts)
        if legal.asked != destination:
            notices = (instead(destination, legal.asked), *notices)
            destination = legal.asked
        beyond = permitted.get("beyond_budget", False)
        spent = check_budget(view, processor_id, beyond_budget=beyond)
        notices = (*notices, spent) if spent else notices
    except InvalidInput as error:
        refusal = str(error)
    group = _group(view, processor)
    held_up = (
        f"request {a.uuid} ({a.processor_id} to {a.destination}, {a.stage}): {a.trouble}"
        for a in (*view.actions, *view.queued, *view.over)
        if a.trouble and a.processor_id in group
    )
    waits = _waits_for(view, group)
    return Plan(
        processor_id=processor_id,
        mode=processor.mode,
        destination=destination,
        host=host,
        source_host=processor.host,
        deployment_id=deployment,
        coordinator=view.coordinator,
        steps=() if refusal else (*_first(waits), *_steps(view, processor, destination, host)),
        hosts=verdicts,
        waits_for=waits,
        notices=(*notices, *held_up),
        refusal=refusal,
    )


def _once_left(verdict: HostVerdict) -> HostVerdict:
    """The verdict on the host of a standby that makes room before anything else is stopped."""
    seen = f"{verdict.seen}, and leaves first"
    return verdict if verdict.legal else replace(verdict, legal=True, ready=True, seen=seen, fix="")


def make_own_plan(
    view: JobView, kind: RequestKind, processor_id: str, destination: str = ANY_HOST
) -> Plan:
    """The plan of a start-standby, stop-standby or fail-over; a refused one says why.

    Raises `InvalidInput` for an unknown processor.
    """
    processor = find_processor(view, processor_id)
    subject, refusal, wanted = processor, None, None
    try:
        if kind is RequestKind.START_STANDBY:
            wanted = check_start_standby(view, processor_id, destination)
        elif kind is RequestKind.STOP_STANDBY:
            wanted = check_stop_standby(view, processor_id)
        else:
            wanted = check_fail_over(view, processor_id)
        subject = wanted.subject or processor
    except InvalidInput as error:
        refusal = str(error)
        if kind is RequestKind.START_STANDBY and processor.mode is TaskMode.ACTIVE:
            subject = new_standby(view, processor)
    waits = _waits_for(view, _group(view, processor))
    starts = kind is RequestKind.START_STANDBY
    goal = {RequestKind.START_STANDBY: destination, RequestKind.STOP_STANDBY: subject.host or "-"}
    return Plan(
        processor_id=subject.processor_id,
        mode=subject.mode,
        destination=goal.get(kind, STANDBY),
        host=destination if wanted and starts and destination not in DESTINATION_WORDS else None,
        source_host=subject.host,
        deployment_id=find_deployment(view, None),
        coordinator=view.coordinator,
        steps=(*_first(waits), *wanted.steps) if wanted else (),
        hosts=judge_all(view, subject),
        waits_for=waits,
        notices=wanted.notices if wanted else (),
        refusal=refusal,
        kind=kind.value,
    )


def instead(asked: str, legal: str) -> str:
    """Return why the request has another destination than the operator named."""
    if asked == ANY_HOST:
        return (
            f"ANY_HOST is {legal}: Samza's AM looks at the rules for it only after it has stopped"
            " the container"
        )
    what = "any legal host" if legal == ANY_HOST else legal
    return f"a rule forbids {asked}: {what} is asked for"


def _steps(
    view: JobView, processor: ProcessorView, destination: str, host: str | None
) -> tuple[str, ...]:
    pid, source = processor.processor_id, processor.host or "where it runs"
    if view.capabilities.places_tasks:
        return _group_steps(view, processor, destination, host)
    target = host or ("the standby's host" if destination == STANDBY else "a host that it chooses")
    reserve = (
        f"the coordinator reserves memory and cores on {target}; if it can't, {pid} stays untouched"
    )
    stop = f"it stops {pid} on {source}"
    there = f"on {host}" if host else "there"
    start = f"it starts {pid} {there}; if that fails, on {source} again, else on any host"
    if destination == FORCE_RESTART_LAST_SEEN:
        return stop, start
    if destination == STANDBY:
        makes_room = (
            f"it reserves a new host for the standby, stops it on {target}, starts it there"
        )
        return makes_room, reserve, stop, start
    return reserve, stop, start


def _group_steps(
    view: JobView, processor: ProcessorView, destination: str, host: str | None
) -> tuple[str, ...]:
    """Return the steps of a group for a request."""
    pid, source = processor.processor_id, processor.host or "no location"
    if pid in view.members:
        return (f"{pid} ends its containers and starts them again at {source}; no task moves",)
    target = host or "a location that the leader chooses"
    moves = f"{pid}, and its standby the other way" if destination == STANDBY else pid
    return (
        f"the leader makes a version of the group that has {moves}, from {source} at {target}",
        "each processor whose tasks it changes stops those, and starts them once all have joined",
        f"{pid} stays at {target} over later versions, while a processor is there",
    )


def _first(waits: tuple[str, ...]) -> tuple[str, ...]:
    return (f"wait for {len(waits)} earlier action(s) of the group",) if waits else ()


def _waits_for(view: JobView, group: set[str]) -> tuple[str, ...]:
    return tuple(a.uuid for a in (*view.actions, *view.queued) if a.processor_id in group)


def _group(view: JobView, processor: ProcessorView) -> set[str]:
    return {processor.processor_id} | {p.processor_id for p in peers_of(view, processor)}
