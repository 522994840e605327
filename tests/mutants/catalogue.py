"""The bugs that are planted: at least two against each invariant."""

from __future__ import annotations

from tests.mutants.patches import Mutant

CATALOGUE: tuple[Mutant, ...] = ()
