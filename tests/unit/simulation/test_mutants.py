"""The catalogue of planted bugs fits the reducer as it is, and asks each judge."""

from __future__ import annotations

import pytest

from tests.mutants.by_tests import JUDGED_BY_TESTS, UNIT_TESTS
from tests.mutants.catalogue import CATALOGUE
from tests.mutants.equivalent import EQUIVALENT, proof_of
from tests.mutants.operators import equivalents, operator_mutants
from tests.mutants.patches import ROOT, Mutant
from tests.mutants.verdict import asked_too_seldom

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_reducer(mutant: Mutant) -> None:
    """Its text stands there once, and what comes of it is Python."""
    compile(mutant.text(), mutant.file, "exec")


def test_each_judge_has_bugs_that_it_should_find() -> None:
    """An invariant two, a law one. A judge that none is planted against is named."""
    assert asked_too_seldom(CATALOGUE) == []
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)
    without = [mutant for mutant in CATALOGUE if mutant.invariant != "acted-once"]
    assert asked_too_seldom(without) == ["acted-once: 0 planted bugs, 2 wanted"]


def test_what_unit_tests_judge_is_there_and_so_are_they() -> None:
    """A module or a file of tests that has another name would pass for one that finds nothing."""
    for module, tests in JUDGED_BY_TESTS.items():
        assert operator_mutants(module)
        assert all((ROOT / UNIT_TESTS / test).is_file() for test in tests)


def test_each_proof_is_of_a_mutant_that_there_is() -> None:
    """One whose line has changed is of no use any more; a line of another function isn't meant."""
    left = {(m.file, m.name.split(" ", 1)[1]) for m in equivalents(operator_mutants())}
    assert {(file, change) for file, _, change in EQUIVALENT} == left
    line, change = "        return False", "returns None"
    assert proof_of("failover.py", line, change, "begin")
    assert proof_of("failover.py", line, change, "recover") is None
