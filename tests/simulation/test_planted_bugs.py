"""No judge is blind: each finds a bug that was planted for it, within a few short histories.

`make mutants` hunts all of the catalogue; these are those that are found soonest.
"""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import hunt
from tests.mutants.catalogue import CATALOGUE, Mutant
from tests.simulation.judges.violation import JUDGES

pytestmark = pytest.mark.simulator

EVENTS = 8_000
SOONEST = frozenset(
    {
        "two of a group may share a fault domain",
        "an active starts before the standby whose place it takes is dead",
        "epochs repeat",
        "a move stops before it has reserved",
        "a hold that nobody commits stops the container",
        "one action more than the job allows",
        "a request that is known is taken again",
        "a request of another deployment is acted on",
        "a restart stops what runs",
        "a request's deadline is not waited for",
        "what is asked for a container that is down has its request's own time",
        "an active starts cold beside a standby that came up meanwhile",
        "a lost host counts as alive once its record is read back",
        "a record loses what came before it",
    }
)
PLANTED = [mutant for mutant in CATALOGUE if mutant.name in SOONEST]


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found_by_the_judge_that_it_is_planted_for(mutant: Mutant) -> None:
    found = hunt(mutant, EVENTS)
    assert found["invariant"] == mutant.invariant, found


def test_each_judge_is_put_to_the_test() -> None:
    """By one bug at least."""
    assert {mutant.invariant for mutant in PLANTED} == set(JUDGES)
