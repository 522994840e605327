"""A bug as a change of the reducer's text, and a copy of the product that has it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACEMENT = Path("samza_dagster") / "placement"
# What the simulator imports of the product; the simulator itself isn't copied.
ROOMS = ("placement", "model", "lag", "errors.py", "version.py", "__init__.py")


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` stands in `file` of the reducer once, and becomes `new`; so does each pair of `more`.

    `invariant` is the one that should find it; "" when any may. A bug that two guards keep
    out takes both away.
    """

    name: str
    file: str
    old: str
    new: str
    invariant: str = ""
    more: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """The whole module with the bug; raises `StaleMutant` when the reducer has changed."""
        source = (ROOT / PLACEMENT / self.file).read_text()
        for old, new in ((self.old, self.new), *self.more):
            if source.count(old) != 1:
                raise StaleMutant(
                    f"{self.name}: {self.file} has {source.count(old)} times, not once:\n{old}"
                )
            source = source.replace(old, new)
        return source


class StaleMutant(Exception):
    """The text that a mutant replaces isn't there, or not only once."""


def copy_of_placement(into: Path, file: str = "", text: str = "") -> None:
    """The rooms that the simulator needs, with one module of the reducer replaced."""
    package = into / "samza_dagster"
    package.mkdir(parents=True)
    for room in ROOMS:
        source = ROOT / "samza_dagster" / room
        if source.is_dir():
            shutil.copytree(source, package / room, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, package / room)
    if file:
        (into / PLACEMENT / file).write_text(text)
