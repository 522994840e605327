"""The catalogue of planted bugs fits the reducer as it is, and asks each judge."""

from __future__ import annotations

import pytest

from tests.mutants.catalogue import CATALOGUE
from tests.mutants.patches import Mutant
from tests.mutants.verdict import asked_too_seldom

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_reducer(mutant: Mutant) -> None:
    """Its text stands there once, and what comes of it is Python."""
    compile(mutant.text(), mutant.file, "exec")


def test_each_judge_has_bugs_that_it_should_find() -> None:
    """An invariant two, any other one. A judge that none is planted against is named."""
    assert asked_too_seldom(CATALOGUE) == []
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)
    without = [mutant for mutant in CATALOGUE if mutant.invariant != "acted-once"]
    assert asked_too_seldom(without) == ["acted-once: 0 planted bugs, 2 wanted"]
