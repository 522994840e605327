"""What a chaos run found: counts, times, and every single thing that must not be. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from rich.table import Table

from tests.chaos.broker_log import Overlap
from tests.chaos.schedule import Fault


class CarriedOut(NamedTuple):
    """A fault, whom it befell, when (s since the epoch), the journal's length then, and how many
    others were in force as it began.
    """

    fault: Fault
    victim: str
    at_s: float
    known: int
    beside: int = 0


@dataclass(frozen=True)
class Befallen:
    """One fault: whom it befell, until all was at rest, and what it did to actives.

    `group`: the number of the first fault that it is joined with, its own when it came alone.
    `beside`: so many others were in force as it began.
    `replaced`: actives that got another process from this fault to the next one.
    `downtime_ms`: the longest silence of the outputs of an active that was replaced in the
    whole group, since joined faults can't be told apart by it; None when none was replaced, or
    nobody could tell.
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


def befell(
    group: Sequence[CarriedOut],
    journal: Sequence[Mapping[str, Any]],
    silences_ms: Mapping[str, int],
    rest_s: float | None,
) -> list[Befallen]:
    """What joined faults did, by who was started; `silences_ms` of actives, where known."""
    ends = [*(each.known for each in group[1:]), len(journal)]
    replaced = [_actives(journal[each.known : end]) for each, end in zip(group, ends, strict=True)]
    silent = [silences_ms[a] for names in replaced for a in names if a in silences_ms]
    return [
        Befallen(
            number=each.fault.number,
            group=group[0].fault.number,
            kind=each.fault.kind,
            victim=each.victim,
            rest_s=rest_s,
            replaced=names,
            failed_over=tuple(n for n in names if _moved(journal[:end], each.known, n)),
            downtime_ms=max(silent, default=None),
            beside=each.beside,
        )
        for each, end, names in zip(group, ends, replaced, strict=True)
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
    unexplained: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    history: str = ""
    """What `verify` says of the audit trail when it isn't right."""

    @property
    def is_good(self) -> bool:
        """Nothing missing or made up under a load, nobody stuck, none beside its own on a host;
        who wrote could be judged, and with the broker fence none wrote in turns.
        """
        whole = not (self.missing or self.unexplained or self.history or self.load)
        whole = whole and not (self.same_host or self.unjudged)
        at_rest = all(each.rest_s is not None for each in self.faults)
        return whole and at_rest and not (self.overlaps and self.fencing == "broker")

    def to_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {
            "good": self.is_good,
            **asdict(self),
            "downtime_ms": {"p50": self.downtime(0.5), "p99": self.downtime(0.99)},
            "together": sum(each.beside > 0 for each in self.faults),
            "kinds": dict(Counter(each.kind for each in self.faults)),
        }

    def downtime(self, quantile: float) -> int | None:
        """Of all faults that replaced an active, joined ones once; None without one."""
        return nearest_rank(_silences(self.faults), quantile)

    def table(self) -> Table:
        """Kind by kind."""
        table = Table(
            "fault", "times", "actives replaced", "failed over", "p50 ms", "longest ms", "rest s"
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


def _silences(faults: Iterable[Befallen]) -> list[int]:
    """One for each group."""
    found = {each.group: each.downtime_ms for each in faults}
    return [silent_ms for silent_ms in found.values() if silent_ms is not None]


def nearest_rank(values: Sequence[int], quantile: float) -> int | None:
    """The value that so large a part of them doesn't exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)] if ordered else None
