"""Judge whether a host may take a processor, by the metadata. Pure."""

from __future__ import annotations

from collections.abc import Sequence
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
from samza_dagster.errors import Refused
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import STANDBY, active_task_of
from samza_dagster.placement.explain import explain, group_with
from samza_dagster.placement.state import JobState, Phase

SAME_HOST_RULE = "an active and its standbys, or two standbys of it, are never on one host"


@dataclass(frozen=True)
class HostVerdict(View):
    """A verdict on a host as a destination: the deciding rule, what was seen, the smallest fix.

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
    """Return that nothing can start on the host now, by its agent or YARN; else None."""
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
    """Judge by the coordinator's rules, life and free resources: the first that decides."""
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


def standby_host(
    view: JobView, processor: ProcessorView, verdicts: Sequence[HostVerdict]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the host that STANDBY means, None when the coordinator chooses among several.

    Also returns what the coordinator says of places that it refuses, if it decides later.

    Raises `Refused` if the coordinator has no such destination, for a standby, for an active without a
    standby, and for one whose standby could go nowhere.
    """
    pid = processor.processor_id
    standbys = [p for p in peers_of(view, processor) if p.mode is TaskMode.STANDBY and p.host]
    seen = "standbys " + (", ".join(f"{p.processor_id} on {p.host}" for p in standbys) or "none")
    if not view.capabilities.has_standby_destination:
        verdict = next((v for v in verdicts if standbys and v.host == standbys[0].host), None)
        raise Refused(
            f"place {pid} --to STANDBY: this coordinator has no such destination",
            seen=seen,
            fix=verdict.fix if verdict is not None else "name a host or ANY_HOST",
        )
    if processor.mode is TaskMode.STANDBY:
        raise Refused(
            f"place {pid} --to STANDBY: for an active", seen=f"{pid} is a standby", fix="a host"
        )
    if not standbys:
        raise Refused(
            f"place {pid} --to STANDBY: an active with a standby",
            seen=seen,
            fix=f"control-standby start {pid}, or name a host or ANY_HOST",
        )
    if view.capabilities.places_tasks:  # the two swap their places, where each has been legal
        return standbys[0].host if len(standbys) == 1 else None, ()
    places, notes = _places(view, processor, tuple(p.host or "" for p in standbys))
    # As the coordinator reserves it, before anything stops: the fault domain that it leaves is legal.
    placing = Placing(view, only=view.group_of(pid))
    free = {
        host
        for standby in standbys
        for host in set(view.hosts) - placing.forbidden(standby.processor_id) - {standby.host}
    }
    if not free:
        raise Refused(
            f"place {pid} --to STANDBY: the standby needs a new host first",
            seen="; ".join(f"{v.host}: {v.seen}" for v in verdicts),
            fix=f"start an agent on another host, or fail-over {pid}",
        )
    return places[0] if len(places) == 1 else None, notes


def _places(
    view: JobView, processor: ProcessorView, seen: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The standbys' places that the coordinator allows, and its words where it decides later.

    Raises `Refused`, in its words, where it would refuse the request now. One that waits (its
    group is busy, or its container down) is judged when its turn comes.
    """
    pid = processor.processor_id
    if view.state is None:
        return seen, ()
    said = explain(view.state, pid, STANDBY)
    legal = tuple(candidate.host for candidate in said.candidates if candidate.legal)
    if legal:
        return legal, ()
    if _waits(view.state, pid):
        return (), (f"as it is now, it would be refused: {said}",)
    raise Refused(
        f"place {pid} --to STANDBY: " + ", ".join(dict.fromkeys(c.rule for c in said.candidates)),
        seen="; ".join(candidate.seen for candidate in said.candidates),
        fix="; or ".join(candidate.change for candidate in said.candidates),
    )


def _waits(state: JobState, processor_id: str) -> bool:
    """Return whether a request about the processor would be queued."""
    group = group_with(state, processor_id)
    if group is None:
        return False
    free = group.action is None and group.failover is None and not group.queue
    return not free or group.processors[processor_id].phase is not Phase.RUNNING
