"""The bugs that are planted: at least two against each invariant, and one against each other judge.

They stand in `planted.bugs`: who should find one, the module of the reducer and the bug's name, then
the lines that it takes away and those that it puts in their place, as in a patch.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACEMENT = Path("samza_dagster") / "placement"
# What the simulator imports of the product; the simulator itself isn't copied.
ROOMS = ("placement", "model", "lag", "errors.py", "version.py", "__init__.py")


class StaleMutant(Exception):
    """The text that a mutant replaces isn't there, or not only once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """Each first of the `changes` stands in `file` of the reducer once, and becomes its second.

    `invariant` is the judge that should find it. A bug that two guards keep out takes both away.
    """

    name: str
    file: str
    invariant: str
    changes: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The whole module with the bug; raises `StaleMutant` when the reducer has changed."""
        source = (ROOT / PLACEMENT / self.file).read_text()
        for old, new in self.changes:
            if source.count(old) != 1:
                raise StaleMutant(
                    f"{self.name}: {self.file} has {source.count(old)} times, not once:\n{old}"
                )
            source = source.replace(old, new)
        return source


def copy_of_placement(into: Path, mutant: Mutant | None) -> None:
    """The rooms that the simulator needs, with the bug if there is one."""
    package = into / "samza_dagster"
    package.mkdir(parents=True)
    for room in ROOMS:
        source = ROOT / "samza_dagster" / room
        if source.is_dir():
            shutil.copytree(source, package / room, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, package / room)
    if mutant is not None:
        (into / PLACEMENT / mutant.file).write_text(mutant.text())


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
    return Mutant(name, file, invariant, tuple(_changes(lines)))


CATALOGUE: tuple[Mutant, ...] = tuple(
    map(
        _planted, Path(__file__).with_name("planted.bugs").read_text(encoding="utf-8").split("\n\n")
    )
)
