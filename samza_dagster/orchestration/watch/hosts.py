"""Hosts that are lost, and since when as far as a look can tell. Pure."""

from __future__ import annotations

from samza_dagster.orchestration.watch.memory import HOST_LOST, Memory, Signal
from samza_dagster.orchestration.watch.observation import LOST, Sight

TOGETHER_MS = 900_000
"""One cause shows within this: a host is lost after half a minute, a standby stands after four."""


def lost_since(sight: Sight, memory: Memory, now_ms: int) -> dict[str, int]:
    """Lost host → since when, in ms; 0: for long.

    Where nobody looked before and its agent's last word isn't known, it counts as lost just now
    while a container is on it: the coordinator moves them as soon as it can.
    """
    blind = not memory.looks or now_ms - memory.looked_ms > TOGETHER_MS
    used = {c.host for c in sight.containers}
    found: dict[str, int] = {}
    for host, state in sight.host_states.items():
        if state != LOST:
            continue
        word = sight.host_words.get(host)
        if host in memory.lost:
            found[host] = min(memory.lost[host], now_ms)  # the clock may be set back
        elif word is not None:
            found[host] = now_ms - word
        else:
            found[host] = 0 if blind and host not in used else now_ms
    return found


def lost_signals(sight: Sight) -> tuple[Signal, ...]:
    """Lost hosts on which containers of a job of Samza's AM were; ours says itself what it does there."""
    if sight.ours:
        return ()
    return tuple(
        Signal(
            HOST_LOST,
            host,
            tuple((c.processor_id, c.incarnation) for c in here),
            f"YARN's ResourceManager has lost it, and {len(here)} containers were there",
        )
        for host, here in sorted(sight.on_host().items())
        if sight.host_states.get(host) == LOST
    )
