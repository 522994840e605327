"""The catalogue of planted bugs fits the reducer as it is, and asks each judge."""

from __future__ import annotations

import pytest

from tests.mutants.by_tests import JUDGED_BY_TESTS, UNIT_TESTS
from tests.mutants.catalogue import CATALOGUE
from tests.mutants.equivalent import EQUIVALENT, proof_of
from tests.mutants.operators import equivalents, operator_mutants
from tests.mutants.patches import ROOT, Mutant, StaleMutant
from tests.mutants.reach import AT_IMPORT, Reach, statement_of
from tests.mutants.verdict import Catch, asked_too_seldom, is_too_few, wrong_catches

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


def test_a_bug_that_another_invariant_finds_is_as_wrong_as_one_that_survives() -> None:
    """One without a name may be found by any."""
    named, unnamed = Mutant("a", "rules.py", "", "", "one-owner"), Mutant("b", "rules.py", "", "")
    found = [
        Catch(mutant, {"invariant": by})
        for mutant in (named, unnamed)
        for by in ("one-owner", "same-host", None)
    ]
    assert wrong_catches(found) == [
        "a: expected one-owner, found by same-host",
        "a: expected one-owner, survives",
        "b: expected any, survives",
    ]


def test_a_bug_whose_place_is_gone_says_so() -> None:
    """A reducer that has changed doesn't pass for one that survived."""
    with pytest.raises(StaleMutant, match="0 times"):
        Mutant("gone", "rules.py", "no such line", "").text()


def test_what_unit_tests_judge_is_there_and_so_are_they() -> None:
    """A module or a file of tests that has another name would pass for one that finds nothing."""
    for module, tests in JUDGED_BY_TESTS.items():
        assert operator_mutants(module)
        assert all((ROOT / UNIT_TESTS / test).is_file() for test in tests)


def test_operator_mutants_are_python_and_differ_from_the_reducer() -> None:
    """Those of one module; each names its line."""
    mutants = operator_mutants("leases.py")
    texts = {mutant.text() for mutant in mutants}
    assert len(texts) == len(mutants) > 10
    for text in texts:
        compile(text, "leases.py", "exec")
    assert all(mutant.line > 0 for mutant in mutants)


SOURCE = """\
ONE = 1

@cache
def kept(x):
    return x + 1

def chosen(x):
    if (
        x
        and ONE
    ):
        return 1
    for y in x: print(y)
    return [
        y for y in x
    ]
"""


def test_a_mutant_is_hunted_where_its_statement_runs() -> None:
    """What is inside of a block has its own; what a module or a cache keeps is hunted everywhere."""
    assert statement_of(SOURCE, 1) is None
    assert statement_of(SOURCE, 5) is None
    assert statement_of(SOURCE, 7) is None
    assert [statement_of(SOURCE, line) for line in (8, 10)] == [range(8, 12)] * 2
    assert statement_of(SOURCE, 12) == range(12, 13)
    assert statement_of(SOURCE, 13) == range(13, 14)
    assert statement_of(SOURCE, 15) == range(14, 17)


def test_histories_that_run_past_a_mutant_are_left_out() -> None:
    """One that runs at import changes them all."""
    mutant = next(m for m in operator_mutants("leases.py") if "returns None" in m.name)
    lines = {3: {"leases.py": frozenset({mutant.line})}, 4: {"leases.py": frozenset({1})}, 5: {}}
    reach = Reach({AT_IMPORT: {}, **lines})
    assert reach.seeds == (3, 4, 5)
    assert reach.seeds_of(mutant) == (3,)
    at_import = {AT_IMPORT: {"leases.py": frozenset({mutant.line})}}
    assert Reach({**lines, **at_import}).seeds_of(mutant) == (3, 4, 5)


def test_each_proof_is_of_a_mutant_that_there_is() -> None:
    """One whose line has changed is of no use any more; a line of another function isn't meant."""
    left = {(m.file, m.name.split(" ", 1)[1]) for m in equivalents(operator_mutants())}
    assert {(file, change) for file, _, change in EQUIVALENT} == left
    line, change = "        self.refresh()", "statement removed"
    assert proof_of("index_draft.py", line, change, "groups_on")
    assert proof_of("index_draft.py", line, change, "_end_pauses") is None


def test_a_sample_is_too_poor_when_chance_does_not_explain_it() -> None:
    """Where three quarters are killed, four of eight happen in each ninth sample, two in none of 200."""
    assert not is_too_few(4, 8, 0.75)
    assert is_too_few(2, 8, 0.75)
    assert is_too_few(50, 100, 0.75)
    assert not is_too_few(0, 8, 0.0)


def test_a_default_is_no_operator() -> None:
    """Each history has limits of its own."""
    texts = {mutant.name for mutant in operator_mutants("state.py")}
    assert not any("20000" in text for text in texts)
