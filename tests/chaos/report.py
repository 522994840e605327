"""What a chaos run found: counts, times, and every single thing that must not be. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from tests.chaos.broker_log import Overlap


@dataclass(frozen=True)
class Befallen:
    """One fault: whom it befell, until all was at rest, and what it did to actives.

    `downtime_ms`: the longest silence of the outputs of a replaced active; None when none
    was replaced. `replaced`: actives that got another process.
    """

    number: int
    kind: str
    victim: str
    rest_s: float | None
    replaced: tuple[str, ...]
    failed_over: tuple[str, ...]
    downtime_ms: int | None


@dataclass
class Report:
    """The whole run."""

    seed: int
    fencing: str
    faults: list[Befallen] = field(default_factory=list[Befallen])
    overlaps: list[Overlap] = field(default_factory=list[Overlap])
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
        """Nothing missing or made up, nobody stuck; with the broker fence no overlap either."""
        whole = not (self.missing or self.unexplained or self.history)
        at_rest = all(each.rest_s is not None for each in self.faults)
        return whole and at_rest and not (self.overlaps and self.fencing == "broker")

    def to_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {
            "good": self.is_good,
            **asdict(self),
            "downtime_ms": {"p50": self.downtime(0.5), "p99": self.downtime(0.99)},
            "kinds": dict(Counter(each.kind for each in self.faults)),
        }

    def downtime(self, quantile: float) -> int | None:
        """Of all faults that replaced an active; None without one."""
        return nearest_rank(
            [each.downtime_ms for each in self.faults if each.downtime_ms is not None], quantile
        )

    def table(self) -> Table:
        """Kind by kind."""
        table = Table(
            "fault", "times", "actives replaced", "failed over", "p50 ms", "longest ms", "rest s"
        )
        for kind in sorted({each.kind for each in self.faults}):
            mine = [each for each in self.faults if each.kind == kind]
            silent = [each.downtime_ms for each in mine if each.downtime_ms is not None]
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


def nearest_rank(values: Sequence[int], quantile: float) -> int | None:
    """The value that so large a part of them doesn't exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)] if ordered else None
