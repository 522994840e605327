"""The rules that a host must meet for a processor, and what broke one of them.

Same host: a member of a group may not be where another member has a process, a
reservation, or a pending request for that host by name. A process counts until it
was seen dead, also on a host that is lost. (Hot standby SEP, invariant 1.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.placement.state import Group, Host, ResourceRequest

SAME_HOST = "same-host"
ANOTHER_HOST = "another-host"
HOST_ALIVE = "host-alive"


@dataclass(frozen=True)
class Violation:
    """A rule that `host` breaks: what was seen, and the smallest change that makes it legal."""

    rule: str
    host: str
    seen: str
    change: str


def taken_hosts(group: Group, processor_id: str) -> dict[str, Violation]:
    """Hosts that the group's other members hold, each with what holds it."""
    taken: dict[str, Violation] = {}
    for other in group.processors.values():
        if other.processor_id == processor_id:
            continue
        for request in (other.request, _reservation(group, other.processor_id)):
            if request is not None and (host := request.allocated_host or request.host):
                verb = "has reserved" if request.allocated_host else "has requested"
                taken[host] = Violation(
                    SAME_HOST,
                    host,
                    f"{other.processor_id} of the same group {verb} {host}",
                    f"wait until {other.processor_id} runs, then move it to another host",
                )
        if other.incarnation is not None:
            host = other.incarnation.host
            taken[host] = Violation(
                SAME_HOST,
                host,
                f"{other.processor_id} of the same group is {other.phase} on {host}",
                f"move {other.processor_id} to another host first",
            )
    return taken


def violation(
    group: Group, hosts: Mapping[str, Host], processor_id: str, host: str
) -> Violation | None:
    """The rule that forbids `processor_id` to start on `host` now; None when it may."""
    broken = taken_hosts(group, processor_id).get(host)
    if broken is not None:
        return broken
    return lost(hosts, host)


def lost(hosts: Mapping[str, Host], host: str) -> Violation | None:
    """Whether `host` is known and silent."""
    known = hosts.get(host)
    if known is None or known.alive:
        return None
    return Violation(
        HOST_ALIVE, host, f"{host} is lost: no word from its agent", f"bring {host}'s agent back"
    )


def lost_hosts(hosts: Mapping[str, Host]) -> set[str]:
    """Every known host that is silent."""
    return {name for name, host in hosts.items() if not host.alive}


def _reservation(group: Group, processor_id: str) -> ResourceRequest | None:
    action = group.action
    if action is None or action.ask.processor_id != processor_id:
        return None
    return action.reservation
