"""What became of each planted bug, and whether that is good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.mutants.patches import Mutant
from tests.simulation.judges.violation import INVARIANTS, JUDGES

AT_LEAST = 2
"""Planted bugs for each invariant: one could be found by luck."""


@dataclass(frozen=True, slots=True)
class Catch:
    """What became of a mutant: `found` is what `hunt.py` printed."""

    mutant: Mutant
    found: dict[str, Any]

    @property
    def invariant(self) -> str | None:
        """What found it."""
        return self.found["invariant"]

    @property
    def is_as_expected(self) -> bool:
        """It was found, by the one that it names if it names one."""
        expected = self.mutant.invariant
        return self.invariant is not None and expected in ("", self.invariant)


def wrong_catches(catches: Sequence[Catch]) -> list[str]:
    """A sentence for each planted bug that survives, or that only others than the named one find."""
    return [
        f"{catch.mutant.name}: expected {catch.mutant.invariant or 'any'}, "
        + (f"found by {catch.invariant}" if catch.invariant else "survives")
        for catch in catches
        if not catch.is_as_expected
    ]


def asked_too_seldom(catalogue: Sequence[Mutant]) -> list[str]:
    """A sentence for each judge with too few planted bugs; one beside the invariants has one at least."""
    counts = Counter(mutant.invariant for mutant in catalogue)
    wanted = {name: AT_LEAST if name in INVARIANTS else 1 for name in JUDGES}
    return [
        f"{name}: {counts[name]} planted bugs, {least} wanted"
        for name, least in wanted.items()
        if counts[name] < least
    ]
