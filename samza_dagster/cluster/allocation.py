"""Choose the host of a resource, and say why none could hold it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from samza_dagster.cluster.interface import ResourceAsk


@dataclass(frozen=True)
class KnownHost:
    """A host as it looks from here; `lost_for_s` is the silence of a lost one."""

    host: str
    free_memory_mb: int
    free_cores: int
    containers: int
    lost_for_s: float | None = None

    def fits(self, ask: ResourceAsk) -> bool:
        """Return whether it answers, and has the memory and the cores."""
        return (
            self.lost_for_s is None
            and self.free_memory_mb >= ask.memory_mb
            and self.free_cores >= ask.cores
        )


def choose_host(ask: ResourceAsk, hosts: Iterable[KnownHost]) -> str | None:
    """Return the host with the most free memory, then the fewest containers, then by name."""
    fitting = [
        view
        for view in hosts
        if (view.fits(ask) or (ask.urgent and view.lost_for_s is None))
        and view.host not in ask.excluded_hosts
        and (ask.host is None or ask.host == view.host)
    ]
    best = min(fitting, key=lambda v: (-v.free_memory_mb, v.containers, v.host), default=None)
    return None if best is None else best.host


def explain(
    ask: ResourceAsk,
    hosts: Mapping[str, KnownHost],
    refusals: Mapping[str, str],
    *,
    closed: Mapping[str, str] | None = None,
    gathering: bool = False,
) -> str:
    """Describe in a line each candidate host and its state when the request expired.

    `refusals` is what the agents of hosts that seemed to have room said, `closed` why an engine
    gives nothing there whatever the room. `gathering`: none was asked yet, since hosts were
    still registering with a new leader.
    """
    names = sorted(hosts) if ask.host is None else [ask.host]
    closed = closed or {}
    seen = [
        f"{name}: {_seen(ask, name, hosts.get(name), refusals.get(name), closed.get(name, ''))}"
        for name in names
    ]
    return (
        f"no host could hold {ask.memory_mb} MiB and {ask.cores} cores "
        + ("at once; " if ask.urgent else f"within {ask.expires_in_s:g} s; ")
        + ("; ".join(seen) or "no host is registered")
        + ("; hosts were still registering with a new leader, none was asked" if gathering else "")
    )


def _seen(
    ask: ResourceAsk, name: str, view: KnownHost | None, refusal: str | None, closed: str
) -> str:
    if name in ask.excluded_hosts:
        return "left out by a rule of placement"
    if view is None:
        return f"not registered, {closed}" if closed else "not registered"
    if view.lost_for_s is not None:
        lost = f"lost, no word for {view.lost_for_s:.1f} s"
        return f"{lost}, {closed}" if closed else lost
    if closed:
        return closed
    if refusal and (ask.urgent or view.fits(ask)):
        return f"refused: {refusal}"
    if view.fits(ask):
        return "has room, but its agent did not answer in time"
    return (
        f"full, {view.free_memory_mb} MiB and {view.free_cores} cores free, "
        f"{ask.memory_mb} MiB and {ask.cores} cores needed"
    )
