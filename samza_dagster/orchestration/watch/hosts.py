"""Hosts that are lost, and whether many went bad together: then no failover mends it. Pure.

What went bad at another time has causes of its own, and a host that was lost long before could
run nothing anyway: neither counts, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samza_dagster.orchestration.watch.memory import HOST_LOST, HOST_SICK, Memory, Signal
from samza_dagster.orchestration.watch.observation import LOST, Observation

TOGETHER_MS = 900_000
"""One cause shows within this: a host is lost after half a minute, a standby is stalled after four."""


def lost_since(observation: Observation, memory: Memory, now_ms: int) -> dict[str, int]:
    """Lost host → since when, in ms; 0: for long.

    Where nobody looked before and its agent's last word isn't known, it counts as lost just now
    while a container is on it: the coordinator moves them as soon as it can.
    """
    blind = not memory.looks or now_ms - memory.looked_ms > TOGETHER_MS
    used = {c.host for c in observation.containers}
    found: dict[str, int] = {}
    for host, state in observation.host_states.items():
        if state != LOST:
            continue
        word = observation.host_words.get(host)
        if host in memory.lost:
            found[host] = min(memory.lost[host], now_ms)  # the clock may be set back
        elif word is not None:
            found[host] = now_ms - word
        else:
            found[host] = 0 if blind and host not in used else now_ms
    return found


def lost_signals(observation: Observation) -> tuple[Signal, ...]:
    """Lost hosts on which containers of a job of Samza's AM were; others see to those themselves."""
    if observation.can.shows_its_life:
        return ()
    return tuple(
        Signal(
            HOST_LOST,
            host,
            tuple((c.processor_id, c.incarnation) for c in here),
            f"YARN's ResourceManager has lost it, and {len(here)} containers were there",
        )
        for host, here in sorted(observation.on_host().items())
        if observation.host_states.get(host) == LOST
    )


def went_bad(
    observation: Observation, memory: Memory, signals: Iterable[Signal]
) -> dict[str, tuple[int, ...]]:
    """Host that looks bad now → since when, one time for each thing that is bad about it."""
    host_of = {c.processor_id: c.host for c in observation.containers}
    found: dict[str, tuple[int, ...]] = {host: (at,) for host, at in memory.lost.items()}
    for signal in signals:
        suspect = memory.suspects.get(signal.key)
        host = signal.subject if signal.kind == HOST_SICK else host_of.get(signal.subject)
        if host is not None:
            since = memory.looked_ms if suspect is None else suspect.since_ms
            found[host] = (*found.get(host, ()), min(since, memory.looked_ms))
    return found


def together(
    observation: Observation, bad: Mapping[str, tuple[int, ...]], since_ms: int
) -> tuple[frozenset[str], int]:
    """Hosts that went bad about when something else did, and of how many that could run something."""
    at_once = frozenset(
        host
        for host, times in bad.items()
        if any(abs(at - since_ms) <= TOGETHER_MS for at in times)
    )
    running = {host for host, state in observation.host_states.items() if state != LOST}
    running |= {
        c.host
        for c in observation.containers
        if c.host is not None and observation.host_states.get(c.host) != LOST
    }
    return at_once, len(running | at_once)
