"""Records of the reducer: frozen, copied with changes, and no field that nobody declared."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from samza_dagster.placement.state import Group, Incarnation, Phase, Processor, Role

pytestmark = pytest.mark.unit

RUNS = Processor("0", Role.ACTIVE, Phase.RUNNING, Incarnation(7, "job-0-000007", "host-1", "r-1"))


@pytest.mark.parametrize("made", [RUNS, RUNS.evolve(failures=1)], ids=["made", "evolved"])
def test_a_record_is_frozen_however_it_was_made(made: Processor) -> None:
    """What a state holds never changes under those who hold it."""
    with pytest.raises(FrozenInstanceError):
        made.phase = Phase.STOPPING  # pyright: ignore[reportAttributeAccessIssue]
    assert made.phase is Phase.RUNNING


def test_an_evolved_record_is_what_replace_would_make() -> None:
    """The same fields, equal, of equal hash and the same text; the original is as before."""
    evolved = RUNS.evolve(phase=Phase.STOPPING, deadline_ms=5)
    expected = replace(RUNS, phase=Phase.STOPPING, deadline_ms=5)
    assert type(evolved) is Processor
    assert evolved == expected
    assert hash(evolved) == hash(expected)
    assert repr(evolved) == repr(expected)
    assert RUNS.phase is Phase.RUNNING


def test_a_field_that_a_record_lacks_is_refused() -> None:
    """A misspelt field can't get lost, neither in a copy nor in a new record."""
    with pytest.raises(TypeError, match="phase_"):
        RUNS.evolve(phase_=Phase.STOPPING)
    with pytest.raises(TypeError, match="Incarnation"):
        Incarnation(7, "job-0-000007", "host-1")  # pyright: ignore[reportCallIssue]


def test_a_record_survives_pickle_and_copy() -> None:
    """Histories go between processes."""
    group = Group("0", {"0": RUNS})
    assert pickle.loads(pickle.dumps(group)) == group
    assert copy.deepcopy(group) == group
