"""Which host each container is wanted on, and whether that can be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from samza_dagster.errors import Refused
from samza_dagster.model.naming import group_of, is_standby
from samza_dagster.orchestration.moves import LOST

if TYPE_CHECKING:
    from samza_dagster.client import JobView


def check_pins(view: JobView, pins: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    """Raises `Refused` for a pin that can't hold: unknown, lost, of another one of its group there
    or in the same fault domain, or for a standby outside `allowed`, unless that is empty."""
    taken: dict[tuple[str, str], str] = {}
    for pid, host in sorted(pins.items()):
        seen = ""
        if pid not in view.processors:
            seen = f"no processor {pid}; there are {', '.join(sorted(view.processors))}"
        elif host not in view.hosts:
            seen = f"no host {host}; there are {', '.join(sorted(view.hosts))}"
        elif view.hosts[host].state == LOST:
            seen = f"{host} is lost"
        elif is_standby(pid) and allowed and host not in allowed:
            seen = f"{host} isn't among the component's hosts ({', '.join(allowed)})"
        elif (other := taken.setdefault((group_of(pid), host), pid)) != pid:
            seen = f"{other} of the same group is wanted there too"
        elif (other := _near(view, pid, host, pins)) is not None:
            seen = f"{other} of the same group is wanted in its fault domain"
        if seen:
            raise Refused(f"reconcile: {pid} on {host}", seen=seen, fix="another pin, or none")


def _near(view: JobView, processor_id: str, host: str, pins: Mapping[str, str]) -> str | None:
    """Who of the group is pinned to another host of this host's fault domain."""
    domain = view.hosts[host].fault_domain
    for other, there in sorted(pins.items()):
        same_group = other != processor_id and group_of(other) == group_of(processor_id)
        known = view.hosts.get(there)
        if same_group and domain and known is not None and known.fault_domain == domain:
            return other
    return None
