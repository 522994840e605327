"""What a chaos run found: counts, times, and every single thing that must not be. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rich.table import Table

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker_log import Overlap
from tests.chaos.in_force import CarriedOut
from tests.chaos.owners import CLOCKS_MS

FREEZE_HOST = "freeze host"
THAW_MS = 5_000
"""So long a thaw of a frozen host counts, from the first signal. For a second of it its containers
run alone (`acts.ALONE_S`); a warden that wakes then looks at the clock within another and
kills. The rest is for a machine that does all of it late.
"""


@dataclass(frozen=True)
class Befallen:
    """One fault: whom it befell, until all was at rest, and what it did to actives.

    `group`: the number of the first fault that it is joined with, its own when it came alone.
    `beside`: so many others were in force as it began.
    `replaced`: actives that got another process from this fault to the next one.
    `downtime_ms`: the longest silence of the outputs of an active that was replaced in the
    whole group, since joined faults can't be told apart by it; None when none was replaced, or
    nobody could tell. `began_s` and `undone_s`, when its taking back began, in s since the epoch.
    """

    number: int
    group: int
    kind: str
    victim: str
    rest_s: float | None
    replaced: tuple[str, ...]
    failed_over: tuple[str, ...]
    downtime_ms: int | None
    beside: int = 0
    began_s: float = 0.0
    undone_s: float | None = None


def befell(
    group: Sequence[tuple[CarriedOut, int]],
    journal: Sequence[Mapping[str, Any]],
    silences_ms: Mapping[str, int],
    rest_s: float | None,
) -> list[Befallen]:
    """What joined faults did, by who was started; `silences_ms` of actives, where known.

    With each fault comes the journal's length as it began.
    """
    ends = [*(known for _, known in group[1:]), len(journal)]
    replaced = [_actives(journal[known:end]) for (_, known), end in zip(group, ends, strict=True)]
    silent = [silences_ms[a] for names in replaced for a in names if a in silences_ms]
    return [
        Befallen(
            number=each.fault.number,
            group=group[0][0].fault.number,
            kind=each.fault.kind,
            victim=each.victim,
            rest_s=rest_s,
            replaced=names,
            failed_over=tuple(n for n in names if _moved(journal[:end], known, n)),
            downtime_ms=max(silent, default=None),
            beside=each.beside,
            began_s=each.at_s,
            undone_s=each.undone_s,
        )
        for (each, known), end, names in zip(group, ends, replaced, strict=True)
    ]


def _actives(lines: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    started = {line["processor"] for line in lines if line["what"] == "started"}
    return tuple(sorted(name for name in started if name.isdigit()))


def _moved(journal: Sequence[Mapping[str, Any]], known: int, name: str) -> bool:
    """Its last start is on another host than its last one of what was `known`."""
    hosts = [
        (number, line["host"])
        for number, line in enumerate(journal)
        if line["what"] == "started" and line["processor"] == name
    ]
    before = [host for number, host in hosts if number < known]
    return bool(before) and before[-1] != hosts[-1][1]


def same_host(journal: Iterable[Mapping[str, Any]]) -> list[str]:
    """The kernel's word that two of a group lived on one host; elsewhere leases may let them."""
    found = ((line["one"], line["other"]) for line in journal if line["what"] == "VIOLATION")
    return [
        f"{one.processor} (pid {one.pid}) and {other.processor} (pid {other.pid}) on {one.host}"
        for one, other in found
        if one.host == other.host
    ]


def within_a_thaw(overlap: Overlap, faults: Iterable[Befallen]) -> bool:
    """All that wasn't its writer's to write came as a frozen host thawed."""
    thaws_ms = [
        round(each.undone_s * 1000)
        for each in faults
        if each.kind == FREEZE_HOST and each.undone_s is not None
    ]
    return any(
        at_ms - CLOCKS_MS <= overlap.from_ms and overlap.to_ms <= at_ms + THAW_MS + CLOCKS_MS
        for at_ms in thaws_ms
    )


@dataclass
class Report:
    """The whole run."""

    seed: int
    fencing: str
    faults: list[Befallen] = field(default_factory=list[Befallen])
    overlaps: list[Overlap] = field(default_factory=list[Overlap])
    unjudged: list[str] = field(default_factory=list[str])
    """Logs that can't say who wrote in turns, and why."""
    same_host: list[str] = field(default_factory=list[str])
    load: str = ""
    """What is wrong with the load: without one nothing is missing either."""
    inputs: int = 0
    completed: int = 0
    missing: int = 0
    missing_in: list[int] = field(default_factory=list[int])
    """Partitions of the input whose keys are missing."""
    unexplained: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    history: str = ""
    """What `verify` says of the audit trail when it isn't right."""
    cut_short: list[str] = field(default_factory=list[str])
    """Why less was done or judged than was asked for: what is above is what was seen by then."""
    judged: list[str] = field(default_factory=list[str])
    """The parts of the judgement that came to their ends; without one its counts say nothing."""
    brokers: int = 1
    actives: int = 2
    expects_overlaps: bool = False
    """A run without a fence, which shows that the judge isn't blind: none is as bad as a wrong one."""

    @property
    def is_good(self) -> bool:
        """Nothing missing or made up under a load, nobody stuck, none beside its own on a host,
        nothing left out; who wrote could be judged, and none wrote in turns but, with leases
        alone, as a frozen host thawed. A run that is to show that may have lost by it the
        keys of the actives whose state was written in turns, and no others.
        """
        whole = not (self.unexplained or self.history or self.load)
        whole = whole and not (self.same_host or self.unjudged or self.cut_short)
        mixed = self.actives_of_mixed_state
        lost = self.missing and not {p % self.actives for p in self.missing_in} <= mixed
        kept = not lost and (bool(mixed) or not (self.missing or self.never_rested))
        seen = bool(self.overlaps) or not self.expects_overlaps
        return whole and kept and seen and not self.wrong_overlaps

    @property
    def actives_of_mixed_state(self) -> set[int]:
        """Two owners wrote a changelog of theirs in turns, in a run that is to show that they can.

        Whoever restores it has a state that neither of them had: the Joiner throws at it, at
        every start of its container, and keys of all tasks in there are missing
        (`sandbox.demo_job`).
        """
        return {
            each.partition % self.actives
            for each in self.overlaps
            if self.expects_overlaps and each.topic == demo_job.CHANGELOG_TOPIC
        }

    @property
    def never_rested(self) -> list[int]:
        """Numbers of the faults after which something ran on or stood still for four minutes."""
        return [each.number for each in self.faults if each.rest_s is None]

    @property
    def wrong_overlaps(self) -> list[Overlap]:
        """With the brokers' fence each; with leases alone those outside the thaws of frozen hosts."""
        if self.fencing == "broker":
            return self.overlaps
        return [each for each in self.overlaps if not within_a_thaw(each, self.faults)]

    @property
    def failovers(self) -> int:
        """Actives that were replaced, on their own hosts or on others."""
        return sum(len(each.replaced) for each in self.faults)

    def verdict(self) -> dict[str, Any]:
        """What the run comes to, without its single faults."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            "good": self.is_good,
            **own,
            "faults": len(self.faults),
            "kinds": dict(sorted(Counter(each.kind for each in self.faults).items())),
            "together": sum(each.beside > 0 for each in self.faults),
            "failovers": self.failovers,
            "onto_other_hosts": sum(len(each.failed_over) for each in self.faults),
            "downtime_ms": {"p50": self.downtime(0.5), "p99": self.downtime(0.99)},
            "overlaps": len(self.overlaps),
            "overlaps_in_thaws": sum(within_a_thaw(e, self.faults) for e in self.overlaps),
            "not_at_rest": self.never_rested,
        }

    def to_json(self) -> dict[str, Any]:
        """The verdict, and each fault and overlap."""
        return {
            **self.verdict(),
            "each_fault": [asdict(each) for each in self.faults],
            "each_overlap": [each._asdict() for each in self.overlaps],
        }

    def downtime(self, quantile: float) -> int | None:
        """Of all faults that replaced an active, joined ones once; None without one."""
        return nearest_rank(_silences(self.faults), quantile)

    def table(self) -> Table:
        """Kind by kind, and what it all comes to below."""
        p50, p99 = ("-" if ms is None else f"{ms} ms" for ms in map(self.downtime, (0.5, 0.99)))
        table = Table(
            *("fault", "times", "actives replaced", "failed over"),
            *("p50 ms", "longest ms", "rest s"),
            caption=(
                f"seed {self.seed}, fencing {self.fencing}: {len(self.faults)} faults, "
                f"{self.failovers} failovers, downtime p50 {p50}, p99 {p99}, "
                f"{self.missing} missing, {len(self.overlaps)} overlaps"
            ),
        )
        for kind in sorted({each.kind for each in self.faults}):
            mine = [each for each in self.faults if each.kind == kind]
            silent = _silences(mine)
            rests = [each.rest_s for each in mine if each.rest_s is not None]
            table.add_row(
                kind,
                str(len(mine)),
                str(sum(len(each.replaced) for each in mine)),
                str(sum(len(each.failed_over) for each in mine)),
                str(nearest_rank(silent, 0.5) if silent else "-"),
                str(max(silent) if silent else "-"),
                f"{max(rests):.0f}" if len(rests) == len(mine) else "never",
            )
        return table


def outcome(error: BaseException) -> str:
    """What ended a run, or a part of its judgement, in one line."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _silences(faults: Iterable[Befallen]) -> list[int]:
    """One for each group."""
    found = {each.group: each.downtime_ms for each in faults}
    return [silent_ms for silent_ms in found.values() if silent_ms is not None]


def nearest_rank(values: Sequence[int], quantile: float) -> int | None:
    """The value that so large a part of them doesn't exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)] if ordered else None
