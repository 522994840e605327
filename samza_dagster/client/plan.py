"""What a placement request would do, and why each host may or may not take it. Pure.

The rules are the coordinator's; they are checked here first so that a request that
must fail is never written: an unmodified AM stops its placement thread on an unknown
processor id, and checks some rules only after it stopped the container.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from samza_dagster.client.views import HostView, JobView, ProcessorView, View
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import (
    ANY_HOST,
    DESTINATION_WORDS,
    FORCE_RESTART_LAST_SEEN,
    LAST_SEEN,
    STANDBY,
    active_task_of,
    group_of,
)

MAX_EXPIRY_S = 86_400.0
SAME_HOST_RULE = "an active and its standbys, or two standbys of it, are never on one host"
_HOST_FORM = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,253}[A-Za-z0-9_])?")


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


def _nearest(asked: str, known: Iterable[str]) -> str:
    names = sorted(known)
    match = difflib.get_close_matches(asked, names, n=1, cutoff=0.5)
    return match[0] if match else ""


def find_processor(view: JobView, processor_id: str) -> ProcessorView:
    """The processor by its id; raises `InvalidInput` that names the known ones."""
    found = view.processors.get(processor_id)
    if found is not None:
        return found
    known = sorted(view.processors)
    nearest = _nearest(processor_id, known)
    raise InvalidInput(
        f"processor {processor_id!r} of job {view.job_name} {view.job_id}",
        seen=f"processors {', '.join(known) or 'none: no task is assigned yet'}",
        fix=f"did you mean {nearest!r}?" if nearest else "one of the processors of this job",
    )


def find_deployment(view: JobView, deployment_id: str | None) -> str:
    """The deployment to ask; raises `InvalidInput` when it isn't the running one."""
    if deployment_id is not None and not deployment_id.strip():
        raise InvalidInput(
            "deployment id", seen="an empty string", fix="leave it out, or give the running one"
        )
    if view.deployment_id is None:
        if deployment_id is not None:
            return deployment_id
        raise InvalidInput(
            f"the deployment id of job {view.job_name} {view.job_id}",
            seen="no app.run.id in the coordinator stream",
            fix="name it: --deployment-id",
        )
    if deployment_id is not None and deployment_id != view.deployment_id:
        raise InvalidInput(
            f"deployment {deployment_id!r}",
            seen=f"the running deployment is {view.deployment_id!r}; a coordinator drops the requests of others",
            fix=f"--deployment-id {view.deployment_id}, or leave it out",
        )
    return view.deployment_id


def expiry_ms(request_expiry_s: float | None) -> int | None:
    """Seconds to whole ms; raises `InvalidInput` outside of 0.001 s to a day."""
    if request_expiry_s is None:
        return None
    if not math.isfinite(request_expiry_s) or not 0.001 <= request_expiry_s <= MAX_EXPIRY_S:
        raise InvalidInput(
            "request expiry in seconds",
            seen=str(request_expiry_s),
            fix=f"a number from 0.001 to {MAX_EXPIRY_S:.0f}",
        )
    return round(request_expiry_s * 1000)


def peers_of(view: JobView, processor: ProcessorView) -> tuple[ProcessorView, ...]:
    """Processors that hold a copy of a task of `processor` (same group, or a shared task)."""
    mine = {active_task_of(task) for task in processor.tasks}
    return tuple(
        other
        for _, other in sorted(view.processors.items())
        if other.processor_id != processor.processor_id
        and (
            group_of(other.processor_id) == group_of(processor.processor_id)
            or mine & {active_task_of(task) for task in other.tasks}
        )
    )


def _shortage(view: JobView, host: HostView, processor: ProcessorView) -> str:
    if processor.host == host.host:
        return ""
    short: list[str] = []
    memory, cores = view.container_memory_mb, view.container_cores
    if memory is not None and host.free_memory_mb is not None and host.free_memory_mb < memory:
        short.append(f"{host.free_memory_mb} MiB free, {memory} needed")
    if cores is not None and host.free_cores is not None and host.free_cores < cores:
        short.append(f"{host.free_cores} cores free, {cores} needed")
    return ", ".join(short)


def _room_for(view: JobView, peer: ProcessorView, avoid: frozenset[str]) -> str:
    taken = {p.host for p in peers_of(view, peer)} | {peer.host} | avoid
    free = [h.host for _, h in sorted(view.hosts.items()) if h.host not in taken]
    usable = [name for name in free if view.hosts[name].state != "lost"]
    return usable[0] if usable else ""


def judge(view: JobView, processor: ProcessorView, host: HostView) -> HostVerdict:
    """Whether `host` may take `processor`, by the same-host rule, life and free resources."""
    if host.state == "lost":
        return HostVerdict(
            host=host.host,
            legal=False,
            ready=False,
            rule="a destination's agent answers",
            seen=f"no word from the agent of {host.host} for longer than the lease",
            fix=f"start the agent on {host.host}",
        )
    peer = next((p for p in peers_of(view, processor) if p.host == host.host), None)
    if peer is not None:
        room = _room_for(view, peer, frozenset({host.host}))
        return HostVerdict(
            host=host.host,
            legal=False,
            ready=False,
            rule=SAME_HOST_RULE,
            seen=f"{peer.mode.value.lower()} {peer.processor_id} is on {host.host} ({peer.state})",
            fix=f"move {peer.processor_id} first: samza-dagster place {peer.processor_id} --to {room or 'a host added for it'}",
        )
    short = _shortage(view, host, processor)
    if short:
        return HostVerdict(
            host=host.host,
            legal=True,
            ready=False,
            rule="a resource is reserved before anything stops",
            seen=short,
            fix="free it before the request expires, or give a longer --request-expiry",
        )
    seen = (
        "the container is here: a restart" if processor.host == host.host else "no rule forbids it"
    )
    return HostVerdict(host=host.host, legal=True, ready=True, rule="legal", seen=seen)


def judge_all(view: JobView, processor: ProcessorView) -> tuple[HostVerdict, ...]:
    """A verdict for every known host, in order of their names."""
    return tuple(judge(view, processor, host) for _, host in sorted(view.hosts.items()))


def _waiting(view: JobView, processor: ProcessorView) -> tuple[str, ...]:
    group = {processor.processor_id} | {p.processor_id for p in peers_of(view, processor)}
    return tuple(a.uuid for a in (*view.actions, *view.queued) if a.processor_id in group)


def _peer_leaves(view: JobView, processor: ProcessorView, host: str) -> bool:
    """An action that comes first may take the peer off `host`: the coordinator decides then."""
    staying = {p.processor_id for p in peers_of(view, processor) if p.host == host}
    moving = {
        a.processor_id
        for a in (*view.actions, *view.queued)
        if a.destination not in {host, LAST_SEEN}
    }
    return bool(staying) and staying <= moving


def check_destination(
    view: JobView, processor: ProcessorView, destination: str, *, allow_unknown_host: bool = False
) -> tuple[str | None, tuple[str, ...]]:
    """The host that `destination` stands for (None: any), and what the operator should know.

    Raises `InvalidInput` for a host that isn't known and `Refused` for one that a
    rule forbids. Where Samza's AM coordinates, the metadata doesn't name every node of
    the cluster: `allow_unknown_host` then lets a host pass that no container reported.
    """
    pid = processor.processor_id
    verdicts = judge_all(view, processor)
    notices: list[str] = []
    if view.coordinator == "samza" and not view.host_affinity:
        notices.append(
            "job.host-affinity.enabled is off: Samza's AM takes every destination for ANY_HOST and answers with the host that was asked for"
        )
    if destination == STANDBY:
        standbys = [p for p in peers_of(view, processor) if p.mode is TaskMode.STANDBY and p.host]
        raise Refused(
            f"place {pid} --to STANDBY: this coordinator has no such destination",
            seen="standbys "
            + (", ".join(f"{p.processor_id} on {p.host}" for p in standbys) or "none"),
            fix=verdict.fix
            if (
                verdict := next(
                    (v for v in verdicts if standbys and v.host == standbys[0].host), None
                )
            )
            else "name a host or ANY_HOST",
        )
    if destination in (LAST_SEEN, FORCE_RESTART_LAST_SEEN):
        if processor.last_seen_host is None:
            notices.append(f"{pid} has never reported a host: the coordinator takes any")
        if destination == FORCE_RESTART_LAST_SEEN:
            notices.append("stops the container before its resource is reserved")
        return processor.last_seen_host, tuple(notices)
    if destination == ANY_HOST:
        others = [v for v in verdicts if v.host != processor.host]
        if view.coordinator == "samza_dagster" and not any(v.legal for v in others):
            raise Refused(
                f"place {pid} --to ANY_HOST: no other host is legal",
                seen="; ".join(f"{v.host}: {v.seen}" for v in others) or "no other host",
                fix=next((v.fix for v in verdicts if v.fix), "start an agent on another host"),
            )
        if view.coordinator == "samza" and peers_of(view, processor):
            notices.append(
                "Samza's AM checks the same-host rule only after it stopped the container: it may fall back to the source host; a named host can't"
            )
        return None, tuple(notices)
    if not _HOST_FORM.fullmatch(destination):
        raise InvalidInput(
            "destination host",
            seen=repr(destination),
            fix=f"a host name, or one of {', '.join(sorted(DESTINATION_WORDS - {STANDBY}))}",
        )
    if destination not in view.hosts:
        nearest = _nearest(destination, (*view.hosts, *DESTINATION_WORDS))
        if view.coordinator == "samza" and allow_unknown_host:
            notices.append(
                f"no container reported {destination} yet; if the cluster has no such node the AM answers FAILED when the request expires, and the container stays"
            )
            return destination, tuple(notices)
        hint = f"did you mean {nearest!r}?" if nearest else "one of the hosts seen"
        if view.coordinator == "samza":
            hint += " If the cluster has this node: --allow-unknown-host"
        raise InvalidInput(
            f"destination host {destination!r}",
            seen=f"hosts {', '.join(sorted(view.hosts)) or 'none'}",
            fix=hint,
        )
    verdict = next(v for v in verdicts if v.host == destination)
    if not verdict.legal:
        if verdict.rule == SAME_HOST_RULE and _peer_leaves(view, processor, destination):
            notices.append(f"{verdict.seen}, and an action that comes first moves it")
            return destination, tuple(notices)
        legal = [v.host for v in verdicts if v.legal]
        raise Refused(
            f"place {pid} --to {destination}: {verdict.rule}",
            seen=verdict.seen,
            fix=verdict.fix + (f"; or one of {', '.join(legal)}" if legal else ""),
        )
    if not verdict.ready:
        notices.append(f"{destination}: {verdict.seen}; {verdict.fix}")
    return destination, tuple(notices)


def make_plan(
    view: JobView,
    processor_id: str,
    destination: str,
    deployment_id: str | None = None,
    *,
    allow_unknown_host: bool = False,
) -> Plan:
    """The plan of one request; a destination that is refused is a plan that says why.

    Raises `InvalidInput` for an unknown processor or deployment.
    """
    processor = find_processor(view, processor_id)
    deployment = find_deployment(view, deployment_id)
    refusal: str | None = None
    notices: tuple[str, ...] = ()
    host: str | None = None
    try:
        host, notices = check_destination(
            view, processor, destination, allow_unknown_host=allow_unknown_host
        )
    except InvalidInput as error:
        refusal = str(error)
    waits = _waiting(view, processor)
    return Plan(
        processor_id=processor_id,
        mode=processor.mode,
        destination=destination,
        host=host,
        source_host=processor.host,
        deployment_id=deployment,
        coordinator=view.coordinator,
        steps=() if refusal else _steps(processor, destination, host, len(waits)),
        hosts=judge_all(view, processor),
        waits_for=waits,
        notices=notices,
        refusal=refusal,
    )


def _steps(
    processor: ProcessorView, destination: str, host: str | None, waiting: int
) -> tuple[str, ...]:
    pid, source = processor.processor_id, processor.host or "where it runs"
    target = host or "the host that the coordinator reserves"
    reserve = (
        f"the coordinator reserves memory and cores on {target}; if it can't, {pid} stays untouched"
    )
    stop = f"it stops {pid} on {source}"
    start = f"it starts {pid} on {target}; if that fails on {source}, then on any host"
    steps = [f"wait for {waiting} earlier action(s) of the group"] if waiting else []
    steps += [stop, start] if destination == FORCE_RESTART_LAST_SEEN else [reserve, stop, start]
    return tuple(steps)
