"""What a placement request would do, step by step, and a verdict on every host. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from samza_dagster.client.checks import (
    Permitted,
    check_budget,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.client.own_checks import require_our_coordinator
from samza_dagster.client.verdicts import HostVerdict, judge_all, peers_of
from samza_dagster.client.views import JobView, ProcessorView, View
from samza_dagster.errors import InvalidInput
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import ANY_HOST, FORCE_RESTART_LAST_SEEN, STANDBY
from samza_dagster.model.own_requests import RequestKind


@dataclass(frozen=True)
class Plan(View):
    """What would be asked of whom. Nothing was written.

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
    """The plan of one request; a destination that is refused is a plan that says why.

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
        if legal.asked != destination:
            notices = (instead(destination, legal.asked), *notices)
            destination = legal.asked
        beyond = permitted.get("beyond_budget", False)
        spent = check_budget(view, processor_id, beyond_budget=beyond)
        notices = (*notices, spent) if spent else notices
    except InvalidInput as error:
        refusal = str(error)
    waits = waiting(view, processor)
    held_up = (
        f"request {a.uuid} ({a.processor_id} to {a.destination}, {a.stage}): {a.trouble}"
        for a in (*view.actions, *view.queued, *view.over)
        if a.trouble and a.processor_id in _group(view, processor)
    )
    return Plan(
        processor_id=processor_id,
        mode=processor.mode,
        destination=destination,
        host=host,
        source_host=processor.host,
        deployment_id=deployment,
        coordinator=view.coordinator,
        steps=() if refusal else _steps(processor, destination, host, len(waits)),
        hosts=verdicts,
        waits_for=waits,
        notices=(*notices, *held_up),
        refusal=refusal,
    )


def instead(asked: str, legal: str) -> str:
    """Why another destination is asked for than was said."""
    if asked == ANY_HOST:
        return (
            f"ANY_HOST is {legal}: Samza's AM looks at the rules for it only after it has stopped"
            " the container"
        )
    what = "any legal host" if legal == ANY_HOST else legal
    return f"a rule forbids {asked}: {what} is asked for"


def _steps(
    processor: ProcessorView, destination: str, host: str | None, earlier: int
) -> tuple[str, ...]:
    pid, source = processor.processor_id, processor.host or "where it runs"
    target = host or "the host that the coordinator reserves"
    reserve = (
        f"the coordinator reserves memory and cores on {target}; if it can't, {pid} stays untouched"
    )
    stop = f"it stops {pid} on {source}"
    start = f"it starts {pid} on {target}; if that fails on {source}, then on any host"
    steps = [f"wait for {earlier} earlier action(s) of the group"] if earlier else []
    if destination == STANDBY:
        steps.append(
            f"it reserves a new host for the standby, stops it on {target}, starts it there"
        )
    steps += [stop, start] if destination == FORCE_RESTART_LAST_SEEN else [reserve, stop, start]
    return tuple(steps)


def waiting(view: JobView, processor: ProcessorView) -> tuple[str, ...]:
    """UUIDs of the actions of the processor's group that come first."""
    group = _group(view, processor)
    return tuple(a.uuid for a in (*view.actions, *view.queued) if a.processor_id in group)


def _group(view: JobView, processor: ProcessorView) -> set[str]:
    return {processor.processor_id} | {p.processor_id for p in peers_of(view, processor)}
