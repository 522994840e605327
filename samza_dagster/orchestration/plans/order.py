"""The order in which a rolling bounce restarts containers, and which it doesn't touch now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from samza_dagster.client import JobView, ProcessorView
from samza_dagster.client.stop_budget import StopBudget
from samza_dagster.errors import Refused
from samza_dagster.orchestration.plans.move import LAST_SEEN_STATE, LOST, RUNNING
from samza_dagster.orchestration.text import natural

CONTAINERS = "containers"
HOSTS = "hosts"
LEAVING = "leaving"


@dataclass(frozen=True)
class Batch:
    """A container, or a host with all its containers, in the order in which they go."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Schedule:
    """`at_once` containers; `canaries` batches alone, then `bake_ms`; `stop_after` failures."""

    unit: str = CONTAINERS
    at_once: int = 1
    canaries: int = 0
    bake_ms: int = 0
    stop_after: int = 1


def order_of(
    view: JobView, unit: str, only: Collection[str] = (), skip: Collection[str] = ()
) -> tuple[Batch, ...]:
    """The batches in their order: standbys before actives, hosts with few containers first.

    A host with an active on it comes after all that have none. `only` and `skip` name
    processors or hosts. Raises `Refused` for a name that isn't there, when nothing is
    left, and for a processor that doesn't run: it would be lost among the others.
    """
    known = {*view.processors, *view.hosts, *(p.host for p in view.processors.values() if p.host)}
    unknown = sorted({*only, *skip} - known)
    if unknown:
        raise Refused(
            f"a bounce of what there is: {', '.join(unknown)}",
            seen=f"processors {', '.join(sorted(view.processors, key=natural))}",
            fix="processor ids or host names of the job",
        )
    load: dict[str, int] = {}
    for processor in view.processors.values():
        load[processor.host or ""] = load.get(processor.host or "", 0) + 1
    wanted = [
        p
        for p in view.processors.values()
        if p.state != LEAVING
        and (not only or p.processor_id in only or p.host in only)
        and p.processor_id not in skip
        and p.host not in skip
    ]
    _check(wanted)
    if unit == CONTAINERS:
        wanted.sort(
            key=lambda p: (
                not view.is_standby(p.processor_id),
                load[p.host or ""],
                p.host or "",
                natural(p.processor_id),
            )
        )
        return tuple(Batch(p.processor_id, (p.processor_id,)) for p in wanted)
    on: dict[str, list[str]] = {}
    for p in sorted(
        wanted, key=lambda p: (not view.is_standby(p.processor_id), natural(p.processor_id))
    ):
        on.setdefault(p.host or "", []).append(p.processor_id)
    hosts = sorted(on, key=lambda h: (any(not view.is_standby(p) for p in on[h]), load[h], h))
    return tuple(Batch(host, tuple(on[host])) for host in hosts)


def _check(wanted: Sequence[ProcessorView]) -> None:
    if not wanted:
        raise Refused("a bounce of at least one container", seen="none is left to bounce")
    down = [p for p in wanted if p.host is None or p.state not in (RUNNING, LAST_SEEN_STATE)]
    if down:
        raise Refused(
            "a bounce begins with containers that run",
            seen=", ".join(f"{p.processor_id} is {p.state}" for p in down),
            fix=f"wait until they run, or skip {', '.join(p.processor_id for p in down)}",
        )


def not_running(view: JobView) -> dict[str, str]:
    """Processor → why it isn't at work: by its state, or its host is lost."""
    idle: dict[str, str] = {}
    for p in view.processors.values():
        host = view.hosts.get(p.host) if p.host is not None else None
        if p.state not in (RUNNING, LAST_SEEN_STATE, LEAVING):
            idle[p.processor_id] = f"{p.processor_id} is {p.state}"
        elif host is not None and host.state == LOST:
            idle[p.processor_id] = f"host {p.host} is lost"
    return idle


def busy_groups(view: JobView, ours: Collection[str]) -> dict[str, str]:
    """Group → why it isn't to be touched now; `ours` are the requests of this bounce.

    An action of somebody else, a member that doesn't run, or a host that is lost.
    """
    busy: dict[str, str] = {}
    for processor, why in not_running(view).items():
        busy.setdefault(view.group_of(processor), why)
    for action in (*view.actions, *view.queued):
        if action.uuid not in ours:
            busy.setdefault(
                view.group_of(action.processor_id),
                f"{action.kind} {action.processor_id} to {action.destination}, which somebody else has"
                f" asked for, is {action.stage} (request {action.uuid})",
            )
    return busy


def paced(view: JobView) -> dict[str, StopBudget]:
    """Return processors whose recent stops have spent half of what Samza's AM allows."""
    budgets = view.stop_budgets.items()
    return {p: budget for p, budget in budgets if budget.is_low() and budget.is_ever_free}
