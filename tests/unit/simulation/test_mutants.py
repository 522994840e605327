"""The catalogue of planted bugs fits the heart as it is, and asks each invariant twice."""

from __future__ import annotations

from collections import Counter

import pytest

from samza_dagster.simulation.violation import INVARIANTS
from tests.mutants.catalogue import CATALOGUE
from tests.mutants.operators import operator_mutants
from tests.mutants.patches import Mutant, StaleMutant

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_heart(mutant: Mutant) -> None:
    """Its text stands there once, and what comes of it is Python."""
    compile(mutant.text(), mutant.file, "exec")


def test_each_invariant_has_two_bugs_that_it_should_find() -> None:
    """One could be found by luck."""
    expected = Counter(mutant.invariant for mutant in CATALOGUE)
    assert all(expected[name] >= 2 for name in INVARIANTS), expected
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)


def test_a_bug_whose_place_is_gone_says_so() -> None:
    """A heart that has changed doesn't pass for one that survived."""
    with pytest.raises(StaleMutant, match="0 times"):
        Mutant("gone", "rules.py", "no such line", "").text()


def test_operator_mutants_are_python_and_differ_from_the_heart() -> None:
    """Those of one module; each names its line."""
    mutants = operator_mutants("leases.py")
    texts = {mutant.text() for mutant in mutants}
    assert len(texts) == len(mutants) > 10
    for text in texts:
        compile(text, "leases.py", "exec")
    assert all(mutant.line > 0 for mutant in mutants)
