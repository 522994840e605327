"""The catalogue of planted bugs fits the reducer as it is, and asks each judge."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.catalogue import CATALOGUE, Mutant
from tests.simulation.judges.violation import INVARIANTS, JUDGES

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_reducer(mutant: Mutant) -> None:
    """Its text stands there once, and what comes of it is Python."""
    compile(mutant.text(), mutant.file, "exec")


def test_each_judge_has_bugs_that_it_should_find() -> None:
    """An invariant two, since one could be found by luck, any other judge one."""
    counts = Counter(mutant.invariant for mutant in CATALOGUE)
    assert counts.keys() == set(JUDGES)
    assert min(counts[name] for name in INVARIANTS) >= 2
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)
