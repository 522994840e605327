"""Whether many hosts went bad together: then the cause is elsewhere, and no failover mends it. Pure.

What went bad at another time has causes of its own, and a host that was lost long before could
run nothing anyway: neither counts, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samza_dagster.orchestration.watch.hosts import TOGETHER_MS
from samza_dagster.orchestration.watch.memory import HOST_SICK, Memory, Signal
from samza_dagster.orchestration.watch.observation import LOST, Sight


def went_bad(sight: Sight, memory: Memory, signals: Iterable[Signal]) -> dict[str, tuple[int, ...]]:
    """Host that looks bad now → since when, one time for each thing that is bad about it."""
    host_of = {c.processor_id: c.host for c in sight.containers}
    found: dict[str, tuple[int, ...]] = {host: (at,) for host, at in memory.lost.items()}
    for signal in signals:
        suspect = memory.suspects.get(signal.key)
        host = signal.subject if signal.kind == HOST_SICK else host_of.get(signal.subject)
        if host is not None:
            since = memory.looked_ms if suspect is None else suspect.since_ms
            found[host] = (*found.get(host, ()), min(since, memory.looked_ms))
    return found


def together(
    sight: Sight, bad: Mapping[str, tuple[int, ...]], since_ms: int
) -> tuple[frozenset[str], int]:
    """Hosts that went bad about when something else did, and of how many that could run something."""
    at_once = frozenset(
        host
        for host, times in bad.items()
        if any(abs(at - since_ms) <= TOGETHER_MS for at in times)
    )
    running = {host for host, state in sight.host_states.items() if state != LOST}
    running |= {
        c.host
        for c in sight.containers
        if c.host is not None and sight.host_states.get(c.host) != LOST
    }
    return at_once, len(running | at_once)
