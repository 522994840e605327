"""Whether a host may take a processor, by what the metadata shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from samza_dagster.client.legal_hosts import Placing
from samza_dagster.client.views import (
    LOST_STATE,
    ActionView,
    HostView,
    JobView,
    ProcessorView,
    View,
)
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.model.naming import active_task_of

SAME_HOST_RULE = "an active and its standbys, or two standbys of it, are never on one host"


@dataclass(frozen=True)
class HostVerdict(View):
    """One host as a destination: the rule that decides, what was seen, the smallest fix.

    `legal` is the rules' word; `ready` says whether its free memory and cores suffice
    now (a legal host that isn't ready makes the request wait for its expiry).
    """

    host: str
    legal: bool
    ready: bool
    rule: str
    seen: str
    fix: str = ""


def peers_of(view: JobView, processor: ProcessorView) -> tuple[ProcessorView, ...]:
    """Processors that hold a copy of a task of `processor` (same group, or a shared task)."""
    mine = {active_task_of(task) for task in processor.tasks}
    return tuple(
        other
        for _, other in sorted(view.processors.items())
        if other.processor_id != processor.processor_id
        and (
            view.group_of(other.processor_id) == view.group_of(processor.processor_id)
            or mine & {active_task_of(task) for task in other.tasks}
        )
    )


def _shortage(view: JobView, host: HostView) -> str:
    short: list[str] = []
    memory, cores = view.container_memory_mb, view.container_cores
    if memory is not None and host.free_memory_mb is not None and host.free_memory_mb < memory:
        short.append(f"{host.free_memory_mb} MiB free, {memory} needed")
    if cores is not None and host.free_cores is not None and host.free_cores < cores:
        short.append(f"{host.free_cores} cores free, {cores} needed")
    return ", ".join(short)


def _room_for(view: JobView, placing: Placing, peer: ProcessorView, avoid: frozenset[str]) -> str:
    taken = {p.host for p in peers_of(view, peer)} | {peer.host} | avoid
    taken |= placing.forbidden(peer.processor_id)
    return next((name for name in sorted(view.hosts) if name not in taken), "")


def _reserved_by(view: JobView, processor: ProcessorView, host: HostView) -> ActionView | None:
    """The action by which another member of the group is to come to that host."""
    return next(
        (
            action
            for action in view.actions
            if action.reserved_host == host.host
            and action.processor_id != processor.processor_id
            and view.group_of(action.processor_id) == view.group_of(processor.processor_id)
        ),
        None,
    )


def _away(host: HostView) -> HostVerdict | None:
    """That nothing can be started there now, by the word of whoever knows the host; else None."""
    if host.yarn_state not in ("", RUNNING):
        rule = "a destination's node is RUNNING for YARN's ResourceManager"
        seen, fix = f"{host.host} is {host.yarn_state}", "bring the NodeManager of {} back"
    elif host.state == LOST_STATE:
        rule = "a destination's agent answers"
        seen = f"no word from the agent of {host.host} for longer than the lease"
        fix = "start the agent on {}"
    else:
        return None
    return HostVerdict(host.host, False, False, rule, seen, fix.format(host.host))


def _judge(
    view: JobView,
    processor: ProcessorView,
    host: HostView,
    peers: tuple[ProcessorView, ...],
    placing: Placing,
) -> HostVerdict:
    """By the coordinator's rules, life and free resources: the first that decides."""
    name = host.host
    away = _away(host)
    if away is not None:
        return away
    peer = next((p for p in peers if p.host == name), None)
    if peer is not None:
        pid = peer.processor_id
        to = _room_for(view, placing, peer, frozenset({name})) or "a host added for it"
        seen = f"{peer.mode.value.lower()} {pid} is on {name} ({peer.state})"
        fix = f"move {pid} first: samza-dagster place {quote(pid)} --to {to}"
        return HostVerdict(name, False, False, SAME_HOST_RULE, seen, fix)
    broken = placing.violation(processor.processor_id, name)
    if broken is not None:
        return HostVerdict(name, False, False, broken.rule, broken.seen, broken.change)
    reserved = _reserved_by(view, processor, host)
    if reserved is not None:
        pid = reserved.processor_id
        seen = f"{pid} of the same group has reserved {name} ({reserved.stage}, {reserved.uuid})"
        fix = f"wait until {pid} runs, or cancel that request; then ask again"
        rule = "one action of a group at a time, and " + SAME_HOST_RULE
        return HostVerdict(name, True, False, rule, seen, fix)
    here = processor.host == name
    short = _shortage(view, host)
    if short:
        rule = "a resource is reserved before anything stops"
        fix = "free it before the request expires, or give a longer --request-expiry"
        if here:
            short += " beside the running one"
            fix += "; or --to FORCE_RESTART_LAST_SEEN, which stops first"
        return HostVerdict(name, True, False, rule, short, fix)
    stays = (
        "it is here, and stays"
        if view.capabilities.places_tasks
        else "the container is here: a restart"
    )
    seen = stays if here else "no rule forbids it"
    return HostVerdict(name, True, True, "legal", seen)


def judge_all(view: JobView, processor: ProcessorView) -> tuple[HostVerdict, ...]:
    """A verdict for every known host, in order of their names."""
    peers = peers_of(view, processor)
    placing = Placing(view, only=view.group_of(processor.processor_id))
    return tuple(
        _judge(view, processor, host, peers, placing) for _, host in sorted(view.hosts.items())
    )
