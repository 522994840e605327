"""Every scene of the text files beside this: its steps, one after the other, and what they see.

A head says which job runs on which hosts (`scenes.job`), a name what the scene shows, and the
lines below it are its steps (`words`). All invariants judge each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def a_second_sooner() -> Iterator[Told]:
    """Every deadline of a second or more, that much shorter, with the steps up to it."""
    for told in scenes():
        for deadline in re.finditer(r"until [^;]+ within ([1-9]\d*) s", told.steps):
            before = told.steps[: deadline.start(1)]
            yield told._replace(steps=f"{before}{int(deadline[1]) - 1} s")


@pytest.mark.parametrize("told", a_second_sooner(), ids=str)
def test_no_deadline_is_a_second_longer_than_it_takes(told: Told) -> None:
    """Whoever reads `within 5 s` knows that it takes more than 4 s."""
    with pytest.raises(AssertionError, match="too late"):
        take(job(told.head), told.steps)


def test_a_deadline_that_is_missed_is_told_with_the_time_and_what_was_seen() -> None:
    """A standby that gave way waits 4 s for its turn."""
    world = take(job("one pair"), "0 dies and its room is taken; until 0 is running within 0 s")
    missed = "until all run within 3 s: after 4 s it is too late: 0 is running, 0-0 is requesting"
    with pytest.raises(AssertionError, match=f"^{missed}$"):
        take(world, "until all run within 3 s")
    take(world, "until all run")


def test_what_never_comes_is_told_with_the_time_that_passed() -> None:
    """Once nothing is due no deadline is waited for."""
    world = take(job("one pair"), "0 dies and its room is taken")
    with pytest.raises(AssertionError, match=r"^until held within 900 s: after 4 s never came: "):
        take(world, "until held within 900 s")


def test_each_scene_has_steps_and_a_name_of_its_own() -> None:
    """A name that stands twice would hide one of them."""
    told = scenes()
    assert all(scene.steps for scene in told)
    assert len({str(scene) for scene in told}) == len(told)
