"""Whether what was said of requests to Samza's own AM is true, by what others have seen. Pure.

The kernel's processes, the coordinator stream's records and the ResourceManager are held against
the word of each command and run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from samza_dagster.model.naming import group_of
from samza_dagster.placement import texts
from tests.chaos.am_requests import KILL_AM, REFUSED_THERE, Ask

GRACE_MS = 20_000
"""From a word that a container is started, which means launched, until its process is there."""
LOOK_MS = 1_000
"""How far the looks at processes lie apart at most."""


class Outcome(StrEnum):
    """What a command or a run said in the end. `over`: nobody answers, since the AM was replaced."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    OVER = "over"
    BROKEN = "broken"
    """It crashed, hung, or gave no reason."""


@dataclass(frozen=True)
class Claim:
    """That the processor was started anew, on a host where one is named.

    Without a processor: that the host has none.
    """

    processor: str = ""
    host: str = ""


@dataclass(frozen=True)
class Word:
    """What became of a request by who asked. Times in ms since the epoch."""

    ask: Ask
    began_ms: int
    ended_ms: int
    outcome: Outcome
    claims: tuple[Claim, ...] = ()
    uuid: str = ""
    said: str = ""

    def __str__(self) -> str:
        return f"{self.ask} was {self.outcome}: {self.said[-500:]}"


@dataclass(frozen=True)
class Process:
    """One incarnation of a container as the kernel has shown it, from its first to its last look."""

    processor: str
    host: str
    execution_id: str
    first_ms: int
    last_ms: int


@dataclass(frozen=True)
class Fault:
    """What was done to the cluster: the AM killed, or `host` lost with all that ran there."""

    kind: str
    at_ms: int
    host: str = ""


@dataclass(frozen=True)
class Stream:
    """What the coordinator stream has: each request's statuses in order, and requests that are left."""

    statuses: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict[str, Sequence[tuple[str, str]]])  # fmt: skip
    processors: Mapping[str, str] = field(default_factory=dict[str, str])
    """UUID → the processor, of every request that was ever there."""
    left: Collection[str] = ()


@dataclass(frozen=True)
class Rest:
    """The job when nobody asks any more: by the ResourceManager, the client and the kernel."""

    state: str
    attempts: int
    """Application Masters that began since the first request."""
    waits: Sequence[str]
    shown: Mapping[str, str]
    there: Mapping[str, str]
    per_node: Mapping[str, int]
    """By the ResourceManager: containers of each node that runs, the AM's among them."""
    master_on: str


def problems(
    words: Sequence[Word],
    processes: Sequence[Process],
    faults: Sequence[Fault],
    stream: Stream,
    rest: Rest,
) -> list[str]:
    """Whatever isn't as it was said, or not as it has to be; empty when all is well."""
    found = [told for word in words for told in _of(word, processes, faults, stream)]
    found += _unexplained(processes, faults, stream)
    kills = sum(fault.kind == KILL_AM for fault in faults)
    if rest.attempts != kills:
        found.append(f"the AM ended by itself: {rest.attempts} began after {kills} kills")
    if rest.state != "RUNNING":
        found.append(f"the job is {rest.state}")
    found += [f"it waits for an answer: {one}" for one in (*rest.waits, *sorted(stream.left))]
    if rest.shown != rest.there:
        found.append(f"shown is {dict(rest.shown)}, there is {dict(rest.there)}")
    counted: dict[str, int] = {}
    for host in (*rest.there.values(), rest.master_on):
        counted[host] = counted.get(host, 0) + 1
    told = {host: n for host, n in rest.per_node.items() if n}
    if told != counted:
        found.append(f"the ResourceManager counts {told}, the kernel {counted}")
    return found


def holds(claim: Claim, word: Word, processes: Iterable[Process]) -> bool:
    """Whether the kernel has seen it between the request and some time after the word."""
    begin, end = word.began_ms - LOOK_MS, word.ended_ms + GRACE_MS
    if not claim.processor:
        on_host = [(p.first_ms, p.last_ms + LOOK_MS) for p in processes if p.host == claim.host]
        return not _covers(on_host, begin, end)
    mine = [p for p in processes if p.processor == claim.processor and claim.host in ("", p.host)]
    return any(begin <= p.first_ms <= end for p in mine)


def _of(
    word: Word, processes: Sequence[Process], faults: Sequence[Fault], stream: Stream
) -> list[str]:
    hit = [f for f in faults if word.began_ms - LOOK_MS <= f.at_ms <= word.ended_ms + GRACE_MS]
    if word.outcome is Outcome.BROKEN:
        return [str(word)]
    if word.outcome is Outcome.OVER and not any(f.kind == KILL_AM for f in hit):
        return [f"no AM was killed meanwhile: {word}"]
    found: list[str] = []
    if word.ask.kind in REFUSED_THERE and word.outcome is not Outcome.REFUSED:
        found.append(f"it wasn't refused: {word}")
    if word.outcome is Outcome.REFUSED and word.uuid in stream.processors:
        found.append(f"refused, and request {word.uuid} was written: {word}")
    if word.outcome is Outcome.DONE and not hit:
        found += [f"{c} isn't so: {word}" for c in word.claims if not holds(c, word, processes)]
    if word.outcome is Outcome.DONE and word.uuid in stream.statuses and not hit:
        # Somebody who asks with the same UUID again has a later one written over it.
        answers = [status for status, _ in stream.statuses[word.uuid]]
        if "SUCCEEDED" not in answers:
            found.append(f"its answers are {answers}: {word}")
    return found


def _unexplained(
    processes: Sequence[Process], faults: Sequence[Fault], stream: Stream
) -> list[str]:
    """Processors that were started more often than answers and faults tell."""
    allowed: dict[str, int] = {}
    for uuid, statuses in stream.statuses.items():
        processor = stream.processors.get(uuid, "")
        said = [text for _, text in statuses]
        stopped = texts.STOP_IN_PROGRESS in said
        # One that fails after its stop starts there, in vain, and then where it was.
        starts = 0 if not stopped else 2 if statuses[-1][0] == "FAILED" else 1
        allowed[processor] = allowed.get(processor, 0) + starts
    found: list[str] = []
    for processor in sorted({p.processor for p in processes}):
        mine = sorted((p for p in processes if p.processor == processor), key=lambda p: p.first_ms)
        # Samza starts a lost active on the host of its standby, which gives way.
        group = [p for p in processes if group_of(p.processor) == group_of(processor)]
        lost = sum(
            fault.kind == KILL_AM or any(_was_on(p, fault) for p in group) for fault in faults
        )
        may = 1 + allowed.get(processor, 0) + lost
        if len(mine) > may:
            found.append(f"{processor} was started {len(mine)} times, {may} are explained")
    return found


def _was_on(process: Process, fault: Fault) -> bool:
    at_ms = fault.at_ms
    alive = process.first_ms - LOOK_MS <= at_ms <= process.last_ms + LOOK_MS
    return process.host == fault.host and alive


def _covers(spans: Iterable[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether at each moment from `begin` to `end` one of the spans is there."""
    at = begin
    for first, last in sorted(spans):
        if first > at:
            return False
        at = max(at, last)
    return at >= end
