"""Checks before a placement request is written. Pure.

The rules are the coordinator's; they are checked here first so that a request that
must fail is never written: an unmodified AM stops its placement thread on an unknown
processor id, and checks some rules only after it stopped the container.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from samza_dagster.client.legal_hosts import roomiest
from samza_dagster.client.verdicts import (
    SAME_HOST_RULE,
    HostVerdict,
    judge_all,
    peers_of,
    standby_host,
)
from samza_dagster.client.views import LEAVING_STATE, UNKNOWN_STATE, JobView, ProcessorView
from samza_dagster.errors import InvalidInput, Refused, some_of
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import (
    ANY_HOST,
    DESTINATION_WORDS,
    FORCE_RESTART_LAST_SEEN,
    LAST_SEEN,
    STANDBY,
)
from samza_dagster.model.own_requests import LONGEST_EXPIRY_MS
from samza_dagster.placement.rules import SAME_DOMAIN

_MAX_EXPIRY_S = LONGEST_EXPIRY_MS / 1000
_HOST_FORM = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,253}[A-Za-z0-9_])?")


def _nearest(asked: str, known: Iterable[str]) -> str:
    names = sorted(known)
    match = difflib.get_close_matches(asked, names, n=1, cutoff=0.5)
    return match[0] if match else ""


def find_processor(view: JobView, processor_id: str) -> ProcessorView:
    """The processor by its id; raises `InvalidInput` that names the known ones."""
    found = view.processors.get(processor_id) or view.members.get(processor_id)
    if found is not None and found.state != LEAVING_STATE:
        return found
    there = (*view.processors.values(), *view.members.values())
    known = sorted(p.processor_id for p in there if p.state != LEAVING_STATE)
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
    if not math.isfinite(request_expiry_s) or not 0.001 <= request_expiry_s <= _MAX_EXPIRY_S:
        raise InvalidInput(
            "request expiry in seconds",
            seen=str(request_expiry_s),
            fix=f"a number from 0.001 to {_MAX_EXPIRY_S:.0f}",
        )
    return round(request_expiry_s * 1000)


def _peer_leaves(view: JobView, processor: ProcessorView, host: str) -> bool:
    """An action that comes first may take the peer off `host`, or out of its fault domain:
    the coordinator decides then."""
    domain = view.hosts[host].fault_domain
    near = {host} | {h for h, v in view.hosts.items() if domain and v.fault_domain == domain}
    staying = {p.processor_id for p in peers_of(view, processor) if p.host in near}
    moving = {
        a.processor_id
        for a in (*view.actions, *view.queued)
        if a.destination not in {*near, LAST_SEEN}
    }
    return bool(staying) and staying <= moving


def _check_startable(view: JobView, processor_id: str) -> None:
    """A container reads the whole coordinator stream when it starts: don't stop it for a move
    that can't end well."""
    if view.fatal:
        raise Refused(
            f"place {processor_id}: what is stopped must be able to start again",
            seen=f"a record that ends Samza's reader of the coordinator stream: {'; '.join(view.fatal)}",
            fix="stop whoever writes it, write a deletion of that key, and wait until the topic is compacted past both",
        )
    if view.poison:
        raise Refused(
            f"place {processor_id}: Samza's AM must be able to serve it",
            seen=f"it throws at every reading of {some_of([f'{k}: {why}' for k, why in view.poison.items()])}",
            fix="samza-dagster gc removes it (--dry-run shows it), and stop whoever writes it",
        )


def _check_am_takes_it(view: JobView, processor: ProcessorView) -> None:
    """Return what Samza's AM would do now to a request for this container.

    It queues a request for a container that doesn't run, without an answer. It serialises an active
    with its standbys, but not two standbys of the active, which would then be down at the same time.
    """
    pid = processor.processor_id
    if view.capabilities.rules_before_stop:
        return
    if processor.state == UNKNOWN_STATE and view.host_affinity:
        raise Refused(
            f"place {pid}: a container that runs",
            seen="it has never reported a host: Samza's AM keeps a request for it, unanswered, until it runs",
            fix=f"wait until it runs: samza-dagster status {pid}",
        )
    if processor.mode is TaskMode.STANDBY:
        siblings = {p.processor_id for p in peers_of(view, processor) if p.mode is TaskMode.STANDBY}
        actions = (*view.actions, *view.queued)
        moving = next((a for a in actions if a.processor_id in siblings), None)
        if moving is not None:
            raise Refused(
                f"place {pid}: one standby of an active at a time",
                seen=f"request {moving.uuid} of {moving.processor_id} is {moving.stage}, and Samza's AM would stop both",
                fix=f"wait for its end: samza-dagster status {moving.uuid}",
            )


def _check_unit(view: JobView, processor: ProcessorView, destination: str) -> None:
    """Raises `Refused` for a processor that is to move, and for a task that is to restart."""
    pid = processor.processor_id
    if not view.capabilities.places_tasks or (pid in view.members and destination == LAST_SEEN):
        return
    if pid in view.members:
        tasks = some_of([repr(task) for task in processor.tasks]) or "it has none"
        fix = f"place {pid} --to LAST_SEEN; or name the task: {tasks}"
        raise Refused(
            f"place {pid} --to {destination}: a processor restarts where it is, its tasks are moved",
            seen=f"{pid} is a processor at {processor.host}",
            fix=fix,
        )
    if destination in (LAST_SEEN, FORCE_RESTART_LAST_SEEN):
        holder = next((m for m, it in view.members.items() if pid in it.tasks), None)
        raise Refused(
            f"place {pid!r} --to {destination}: a task restarts with its processor",
            seen=f"{pid} is a task of {holder or 'no registered processor'}",
            fix=f"place {holder} --to LAST_SEEN"
            if holder
            else "wait until a version gives it to one",
        )


def _check_read(view: JobView, processor_id: str) -> None:
    """Refuse a request to a dead job: the next deployment would drop it."""
    asked = f"place {processor_id}: a coordinator reads the request"
    if view.dead is not None:
        raise Refused(asked, seen=view.dead, fix="deploy the job again")
    application = view.application
    if application is not None and application.state != RUNNING:
        raise Refused(
            asked,
            seen=f"YARN's ResourceManager: {application}",
            fix="wait until its Application Master runs; it has a deployment id of its own",
        )


class Permitted(TypedDict, total=False):
    """Overrides that permit a request the rules would refuse.

    `allow_unknown_host`: a host that no container has reported, where Samza's AM coordinates and the
    metadata doesn't name every host of the cluster. `or_any_legal`: a standby whose destination a
    rule forbids goes to any legal host (SEP-22). `beyond_budget`: also where Samza's AM may end the
    job for so many stops (`StopBudget`).
    """

    allow_unknown_host: bool
    or_any_legal: bool
    beyond_budget: bool


@dataclass(frozen=True)
class LegalDestination:
    """A destination to request, the host that it means (None: any), and notices for the operator."""

    asked: str
    host: str | None
    notices: tuple[str, ...] = ()


def legal_destination(
    view: JobView,
    processor: ProcessorView,
    destination: str,
    verdicts: Sequence[HostVerdict] | None = None,
    **permitted: Unpack[Permitted],
) -> LegalDestination:
    """The destination to ask for: `destination`, or any legal host in its place.

    Raises `InvalidInput` for a host that isn't known and `Refused` for one that a rule forbids,
    where no other is taken in its place. `verdicts` are those of `judge_all`, where they are at hand.
    """
    judged = judge_all(view, processor) if verdicts is None else verdicts
    _check_startable(view, processor.processor_id)
    _check_read(view, processor.processor_id)
    _check_am_takes_it(view, processor)
    _check_unit(view, processor, destination)
    try:
        unknown = permitted.get("allow_unknown_host", False)
        return _legal(view, processor, destination, judged, allow_unknown_host=unknown)
    except Refused as refused:
        if not permitted.get("or_any_legal") or processor.mode is not TaskMode.STANDBY:
            raise
        try:
            return _legal(view, processor, ANY_HOST, judged)
        except Refused:
            raise refused from None


def _legal(
    view: JobView,
    processor: ProcessorView,
    destination: str,
    verdicts: Sequence[HostVerdict],
    *,
    allow_unknown_host: bool = False,
) -> LegalDestination:
    pid = processor.processor_id
    notices: list[str] = []
    if view.takes_any_host:
        notices.append(
            "job.host-affinity.enabled is off: Samza's AM takes every destination for ANY_HOST and answers with the host that was asked for"
        )
    if destination == STANDBY:
        host, notes = standby_host(view, processor, verdicts)
        swaps = view.capabilities.places_tasks
        whither = "it takes the active's place" if swaps else "it starts on another legal host"
        notices += [f"the standby gives way first: {whither}", *notes]
        return LegalDestination(destination, host, tuple(notices))
    if destination in (LAST_SEEN, FORCE_RESTART_LAST_SEEN):
        if processor.last_seen_host is None:
            notices.append(f"{pid} has never reported a host: the coordinator takes any")
        if destination == FORCE_RESTART_LAST_SEEN:
            notices.append("stops the container before its resource is reserved")
        host = processor.host or processor.last_seen_host
        host = None if view.takes_any_host else host
        return LegalDestination(destination, host, tuple(notices))
    if destination == ANY_HOST:
        if view.takes_any_host:
            return LegalDestination(destination, None, tuple(notices))
        chosen = _most_roomy(view, processor, verdicts)
        if view.capabilities.rules_before_stop:
            return LegalDestination(destination, None, tuple(notices))
        destination = (
            chosen  # the AM would look at the rules only after it has stopped the container
        )
    if not _HOST_FORM.fullmatch(destination):
        raise InvalidInput(
            "destination host",
            seen=repr(destination),
            fix=f"a host name, or one of {', '.join(sorted(DESTINATION_WORDS - {STANDBY}))}",
        )
    if destination not in view.hosts:
        nearest = _nearest(destination, (*view.hosts, *DESTINATION_WORDS))
        if allow_unknown_host and not view.capabilities.knows_all_hosts:
            notices.append(
                f"no container reported {destination} yet; if the cluster has no such host the AM answers FAILED when the request expires, and the container stays"
            )
            return LegalDestination(destination, destination, tuple(notices))
        hint = f"did you mean {nearest!r}?" if nearest else "one of the hosts seen"
        if not view.capabilities.knows_all_hosts:
            hint += " If the cluster has this host: --allow-unknown-host"
        raise InvalidInput(
            f"destination host {destination!r}",
            seen=f"hosts {some_of(sorted(view.hosts)) or 'none'}",
            fix=hint,
        )
    verdict = next(v for v in verdicts if v.host == destination)
    if not verdict.legal:
        peers_alone = verdict.rule in (SAME_HOST_RULE, SAME_DOMAIN)
        if peers_alone and _peer_leaves(view, processor, destination):
            notices.append(f"{verdict.seen}, and an action that comes first moves it")
            return LegalDestination(destination, destination, tuple(notices))
        legal = [v.host for v in verdicts if v.legal]
        raise Refused(
            f"place {pid} --to {destination}: {verdict.rule}",
            seen=verdict.seen,
            fix=verdict.fix + (f"; or one of {some_of(legal)}" if legal else ""),
        )
    if not verdict.ready:
        notices.append(f"{destination}: {verdict.seen}; {verdict.fix}")
    host = None if view.takes_any_host else destination
    return LegalDestination(destination, host, tuple(notices))


def _most_roomy(view: JobView, processor: ProcessorView, verdicts: Iterable[HostVerdict]) -> str:
    """The `roomiest` of the legal hosts where it isn't; raises `Refused` when there is none."""
    others = [v for v in verdicts if v.host != processor.host]
    legal = {v.host: v.ready for v in others if v.legal}
    if not legal:
        fix = next((v.fix for v in others if v.fix), "start an agent on another host")
        if not view.capabilities.knows_all_hosts:
            fix = "name a host of the cluster that no container has reported yet: --allow-unknown-host"
        raise Refused(
            f"place {processor.processor_id} --to ANY_HOST: no other host is legal",
            seen="; ".join(f"{v.host}: {v.seen}" for v in others) or "no other host",
            fix=fix,
        )
    return roomiest(view, legal)


def check_budget(view: JobView, processor_id: str, *, beyond_budget: bool = False) -> str:
    """Return a notice of the stops that Samza's AM counts, before one more; empty: there is plenty.

    Raises `Refused` where that might end the job, unless somebody wants it `beyond_budget`.
    """
    budget = view.stop_budgets.get(processor_id)
    if budget is None:
        return ""
    refusal = None if beyond_budget else budget.refusal(f"place {processor_id}")
    if refusal is not None:
        raise refusal
    return budget.notice()
