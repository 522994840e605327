"""Every scene of the text files beside this: its steps, one after the other, and what they see.

A head says which job runs on which hosts (`scenes.job`), a name what the scene shows, and the
lines below it are its steps (`words`). All invariants judge each of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.placement.scenes import job
from tests.unit.placement.words import take

pytestmark = pytest.mark.unit


class Told(NamedTuple):
    """A scene as it stands in its file."""

    file: str
    head: str
    name: str
    steps: str

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def scenes() -> list[Told]:
    """All of them: heads begin with `=`, remarks with `#`, and steps are indented."""
    found: list[Told] = []
    for file in sorted(Path(__file__).parent.glob("*.scenes")):
        head = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("= "):
                head = line[2:]
            elif line.startswith("    "):
                told = found.pop()
                steps = f"{told.steps}; {line.strip()}" if told.steps else line.strip()
                found.append(told._replace(steps=steps))
            elif line and not line.startswith("#"):
                found.append(Told(file.stem, head, line, ""))
    return found


@pytest.mark.parametrize("told", scenes(), ids=str)
def test_a_scene_goes_as_it_is_told(told: Told) -> None:
    """Each step is taken, and each sight is seen."""
    take(job(told.head), told.steps)


def test_each_scene_has_steps_and_a_name_of_its_own() -> None:
    """A name that stands twice would hide one of them."""
    told = scenes()
    assert all(scene.steps for scene in told)
    assert len({str(scene) for scene in told}) == len(told)
