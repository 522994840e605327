"""The bugs that are planted: at least two against each invariant, and one against each other judge.

They stand in `planted.bugs`: who should find one, the module of the reducer and the bug's name, then
the lines that it takes away and those that it puts in their place, as in a patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.mutants.patches import Mutant


def _changes(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each run of lines that go, with those that come for them."""
    old, new = "", ""
    for line in lines:
        if line.startswith("-") and new:
            yield old, new
            old, new = "", ""
        if line.startswith("-"):
            old += line[1:] + "\n"
        else:
            new += line[1:] + "\n"
    yield old, new


def _planted(bug: str) -> Mutant:
    told, *lines = bug.strip("\n").splitlines()
    place, name = told.split(": ", 1)
    invariant, file = place.split(", ")
    (old, new), *more = _changes(lines)
    return Mutant(name, file, old, new, invariant, tuple(more))


CATALOGUE: tuple[Mutant, ...] = tuple(
    map(
        _planted, Path(__file__).with_name("planted.bugs").read_text(encoding="utf-8").split("\n\n")
    )
)
