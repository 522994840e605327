"""The rules that a host must meet for a processor, and their violations.

Same host: a member of a group may not be where another member has a process, an orphan, a
reservation, or a pending request for that host by name. It may not be in the same fault domain
either, where domains are known. A process counts until it was seen dead, also on a lost host. It
doesn't count against another machine that has the host's name now, once it owns nothing. An
active that takes a standby's place may be in the standby's fault domain: other members there were
there before, and none is added. (Hot standby SEP, invariant 1.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from samza_dagster.placement import ownership
from samza_dagster.placement.state import (
    Group,
    Host,
    Move,
    Orphan,
    Processor,
    ResourceRequest,
    SpinUp,
    Swap,
    claimant_of,
    request_of,
)

SAME_HOST = "same-host"
SAME_DOMAIN = "same-fault-domain"
NOT_DEAD = "not-known-dead"
ANOTHER_HOST = "another-host"
HOST_ALIVE = "host-alive"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that `host` breaks: the observation, and the smallest change that makes it legal."""

    rule: str
    host: str
    seen: str
    change: str


# Describes what occupies a host. A call, because most descriptions are never needed.
Held = Callable[[], Violation]


def taken_hosts(group: Group, processor_id: str) -> dict[str, Held]:
    """Return the hosts of the group's other members, each with its description."""
    # A standby that gives way to this processor doesn't occupy its host; its orphan does.
    taken: dict[str, Held] = {}
    place, action = ownership.place_taken(group, processor_id), group.action
    giving_way = None if place is None else place.standby_id
    reserving = action if isinstance(action, (Swap, Move, SpinUp)) else None
    for other in group.processors.values():
        other_id = other.processor_id
        if other_id == processor_id:
            continue
        claims = reserving is not None and claimant_of(reserving) == other_id
        for request in (other.request, request_of(action) if claims else None):
            if request is not None and (host := request.allocated_host or request.host):
                taken[host] = partial(_reserved, other_id, request)
        if other.incarnation is not None and other_id != giving_way:
            host = other.incarnation.host
            taken[host] = partial(_there, other, host)
    for orphan in group.orphans:
        if not orphan.left_behind:
            taken[orphan.incarnation.host] = partial(_not_dead, orphan)
    return taken


def _neighbours(group: Group, processor_id: str, taken: Mapping[str, Held]) -> set[str]:
    """Return the taken hosts with fault domains that are forbidden too."""
    # An orphan that has ended has no tasks to lose, and the processor's own past is no other
    # member: of those only the hosts are taken.
    if not group.orphans:
        return set(taken)
    members = tuple(g for g in group.orphans if not g.ended and g.processor_id != processor_id)
    return set(taken_hosts(group.evolve(orphans=members), processor_id))


def violation(
    group: Group, hosts: Mapping[str, Host], processor_id: str, host: str
) -> Violation | None:
    """Return the rule that forbids `processor_id` to be on `host` now; None when it may."""
    taken = taken_hosts(group, processor_id)
    held = taken.get(host)
    if held is not None:
        return held()
    place = ownership.place_taken(group, processor_id)
    if place is not None and host == place.host:
        return lost_violation(hosts, host)
    near = _neighbours(group, processor_id, taken)
    return lost_violation(hosts, host) or _same_domain(
        hosts, {n: taken[n] for n in taken if n in near}, host
    )


def forbidden_hosts(
    group: Group, hosts: Mapping[str, Host], lost_hosts: Iterable[str], processor_id: str
) -> set[str]:
    """Return every host that `processor_id` may not be on now."""
    taken = taken_hosts(group, processor_id)
    forbidden = {*taken, *lost_hosts}
    near = _neighbours(group, processor_id, taken)
    domains = {known.fault_domain for name in near if (known := hosts.get(name))} - {""}
    if domains:
        forbidden.update(name for name, host in hosts.items() if host.fault_domain in domains)
    return forbidden


def obstacle(group: Group, processor_id: str, host: str) -> str | None:
    """Return what must be known dead before `processor_id` starts on `host`; None for nothing.

    Invariants 2 and 3: the standby that leaves its store, and the processor's own earlier
    incarnation on any host.
    """
    processor = group.processors[processor_id]
    if processor.incarnation is not None:
        return f"{processor.incarnation.execution_id} isn't dead yet"
    orphan = ownership.owning_orphan(group, processor_id)
    if orphan is not None:
        return f"{orphan.incarnation.execution_id} may still own its tasks"
    for other in group.processors.values():
        if other.incarnation is not None and other.incarnation.host == host:
            return f"{other.incarnation.execution_id} isn't dead yet"
    return None


def lost_violation(hosts: Mapping[str, Host], host: str) -> Violation | None:
    """Return the violation when `host` is known and silent."""
    known = hosts.get(host)
    if known is None or known.alive:
        return None
    return Violation(
        HOST_ALIVE, host, f"{host} is lost: no word from its agent", f"bring {host}'s agent back"
    )


def _same_domain(
    hosts: Mapping[str, Host], taken: Mapping[str, Held], host: str
) -> Violation | None:
    known = hosts.get(host)
    if known is None or not known.fault_domain:
        return None
    for name, held in taken.items():
        other = hosts.get(name)
        if other is not None and other.fault_domain == known.fault_domain:
            return Violation(
                SAME_DOMAIN,
                host,
                f"{host} is in fault domain {known.fault_domain} as {name} is, and {held().seen}",
                f"name a host of another fault domain than {known.fault_domain}",
            )
    return None


def _reserved(processor_id: str, request: ResourceRequest) -> Violation:
    host = request.allocated_host or request.host or ""
    verb = "has reserved" if request.allocated_host else "has requested"
    return Violation(
        SAME_HOST,
        host,
        f"{processor_id} of the same group {verb} {host}",
        f"wait until {processor_id} runs, then move it to another host",
    )


def _there(other: Processor, host: str) -> Violation:
    return Violation(
        SAME_HOST,
        host,
        f"{other.processor_id} of the same group is {other.phase} on {host}",
        f"move {other.processor_id} to another host first",
    )


def _not_dead(orphan: Orphan) -> Violation:
    host = orphan.incarnation.host
    if orphan.elsewhere:
        return Violation(
            NOT_DEAD,
            host,
            f"{orphan.processor_id} ({orphan.incarnation.execution_id}) was on the machine that "
            f"was {host} before, wasn't seen dead, and may still own its tasks",
            f"wait until its fence or its lease has ended {orphan.processor_id}",
        )
    return Violation(
        NOT_DEAD,
        host,
        f"{orphan.processor_id} ({orphan.incarnation.execution_id}) was on {host} when its agent "
        "fell silent, and wasn't seen dead",
        f"bring {host}'s agent back, on the directory that it had: it tells what became of "
        f"{orphan.processor_id}",
    )
