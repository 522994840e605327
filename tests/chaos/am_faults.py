"""The faults that `auto_failover` has to tell of a job under Samza's own AM, in waves side by side. Pure.

Those of a container come in two waves of six: of the groups 0 and 2 active and standby, of 1 and 3
the standby's restore thread, and then the other way round. In a ring of hosts each has a container
that goes on then, so that none of them looks sick.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

ACTIVES = 4
HOSTS = tuple(f"host-{number}" for number in range(1, ACTIVES + 1))
RING = {
    processor: HOSTS[(number + further) % ACTIVES]
    for number in range(ACTIVES)
    for further, processor in ((0, str(number)), (1, f"{number}-0"))
}
"""Where each container is to be: an active on a host of its own, its standby on the next."""
FREEZE, STOP_APPLYING, KILL_NODE, KILL_AM, KILL_JOB = "freeze", "stop applying", "kill node", "kill AM", "kill job"  # fmt: skip
REPORTS_S = 180.0
"""Three of Samza's report intervals: by then each fault is told."""
AT_ONCE_S = 15.0
"""Where YARN says it."""
BLIND, KNOWS_YARN = "without YARN's word", "with it"
WATCHERS = (BLIND, KNOWS_YARN)


@dataclass(frozen=True)
class Told:
    """What a watcher has told of whom, and how long after the fault."""

    watcher: str
    signal: str
    subject: str
    after_s: float


@dataclass(frozen=True)
class Fault:
    """One thing that is done. `subject` is a processor, or empty where the test chooses."""

    kind: str
    subject: str = ""

    def signals(self, chosen: str = "") -> frozenset[tuple[str, str]]:
        """Any of these tells it; `chosen` is what the test chose."""
        replaced, gone = ("coordinator-replaced", "job"), ("coordinator-gone", "coordinator")
        return {
            FREEZE: frozenset({("silent", self.subject)}),
            STOP_APPLYING: frozenset({("standby-stalled", self.subject)}),
            KILL_NODE: frozenset({("host-sick", chosen)}),
            KILL_AM: frozenset({replaced, gone}),
            KILL_JOB: frozenset({("job-dead", "job")}),
        }[self.kind]

    def deadline_s(self, watcher: str) -> float:
        """By when it is told."""
        at_once = self.kind == KILL_JOB and watcher == KNOWS_YARN
        return AT_ONCE_S if at_once else REPORTS_S


def _containers(frozen: Sequence[int], stopped: Sequence[int]) -> tuple[Fault, ...]:
    return (
        *(Fault(FREEZE, processor) for n in frozen for processor in (str(n), f"{n}-0")),
        *(Fault(STOP_APPLYING, f"{n}-0") for n in stopped),
    )


WAVES: tuple[tuple[Fault, ...], ...] = (
    _containers((0, 2), (1, 3)),
    _containers((1, 3), (0, 2)),
    (Fault(KILL_AM),),
    (Fault(KILL_AM),),
    (Fault(KILL_NODE),),
    (Fault(KILL_JOB),),
)


def next_move(at: Mapping[str, str], group: str) -> tuple[str, str] | None:
    """The next step of a group into the ring; where two stand in each other's way, one steps aside."""
    pair = (group, f"{group}-0")
    left = [p for p in pair if at[p] != RING[p]]
    if not left:
        return None
    for processor, other in (pair, pair[::-1]):
        if processor in left and at[other] != RING[processor]:
            return processor, RING[processor]
    return left[0], next(host for host in HOSTS if host not in (at[pair[0]], at[pair[1]]))


def problems(
    faults: Sequence[Fault],
    told: Collection[Told],
    chosen: Mapping[Fault, str],
    stood_s: Mapping[Fault, float],
) -> list[str]:
    """Faults of a wave that weren't told, or too late, and what was told of nothing. Each watcher has
    to tell all of them, in the time since an outsider saw that the fault `stood_s` (by default at once).
    """
    found: list[str] = []
    for watcher in WATCHERS:
        mine = [one for one in told if one.watcher == watcher]
        meant: set[tuple[str, str]] = set()
        for fault in faults:
            signals = fault.signals(chosen.get(fault, ""))
            meant |= signals
            times = [one.after_s for one in mine if (one.signal, one.subject) in signals]
            name = f"{fault.kind} {fault.subject or chosen.get(fault, '')}, {watcher}"
            if not times:
                found.append(f"{name}: not told")
            elif min(times) > fault.deadline_s(watcher) + stood_s.get(fault, 0.0):
                found.append(f"{name}: told after {min(times):.0f} s")
        found += [
            f"told {watcher} of nothing: {one.signal} {one.subject}"
            for one in mine
            if (one.signal, one.subject) not in meant
        ]
    return found


def is_told(faults: Sequence[Fault], told: Collection[Told], chosen: Mapping[Fault, str]) -> bool:
    """Whether nobody has to be waited for any more."""
    there = {(one.watcher, one.signal, one.subject) for one in told}
    return all(
        any((watcher, *signal) in there for signal in fault.signals(chosen.get(fault, "")))
        for fault in faults
        for watcher in WATCHERS
    )
