"""What the groupers of Samza 1.8.0 answered on random groups: recorded, so that ours are held against it without a JVM.

`python -m tests.rig.samza_groupers` records anew. A group a line: the grouper (`count`, `ids`; `dealt` is the
latter without locations), its processors `id@location`, its tasks `name@processor@location` with where
they ran, and the answer `name@processor`.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from samza_dagster.assignment import Grouper, TaskLocality, by_container_count, by_container_ids
from samza_dagster.model.naming import ANY_HOST
from samza_dagster.sandbox.artifacts import class_path
from samza_dagster.sandbox.java_check import find_java

RECORDED = Path(__file__).parents[1] / "data" / "samza-groupers.txt"
_GROUPS = 240
_NAMES = ("ada", "bob", "3f0c-11", "3f0c_11", "node-7", "Zoe", "10", "9")
_GROUPERS: dict[str, Grouper] = {
    "count": by_container_count,
    "ids": by_container_ids,
    "dealt": by_container_ids,
}


class Recorded(NamedTuple):
    """One group, and which processor Samza gave each task."""

    grouper: Grouper
    tasks: list[str]
    task_locality: dict[str, TaskLocality]
    processors: dict[str, str]
    answer: dict[str, str]


def recorded() -> Iterator[Recorded]:
    """All that were recorded."""
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        name, processors, tasks, answer = line.split(" | ")
        parts = [task.split("@") for task in tasks.split(" ")]
        located = dict(each.split("@") for each in processors.split(" "))
        yield Recorded(
            _GROUPERS[name],
            [part[0] for part in parts],
            {part[0]: TaskLocality(part[1], part[2]) for part in parts if len(part) > 1},
            dict.fromkeys(located, ANY_HOST) if name == "dealt" else located,
            dict(each.split("@") for each in answer.split(" ")),
        )


def _groups(lots: random.Random) -> Iterator[str]:
    for number in range(_GROUPS):
        name = tuple(_GROUPERS)[number % 3]
        processors = lots.randint(1, 8)
        ids = (
            list(map(str, range(processors)))
            if name == "count"
            else lots.sample(_NAMES, processors)
        )
        group = [f"{each}@h{lots.randint(1, 4)}" for each in sorted(ids)]
        # `count` refuses more processors than tasks; `ids` goes through those by their hashes.
        least = 1 if name == "dealt" else processors
        former = [str(each) for each in range(lots.randint(1, 8))] if name == "count" else _NAMES
        is_known = lots.random() < 0.8  # of `count`, all tasks or none are of use
        tasks = [
            f"T{task}@{lots.choice(former)}@h{lots.randint(1, 5)}"
            if is_known and (name == "count" or lots.random() < 0.8)
            else f"T{task}"
            for task in range(lots.randint(least, 24))
        ]
        yield " | ".join((name, " ".join(group), " ".join(tasks)))


def _record() -> None:
    source = Path(__file__).with_name("SamzaGroupers.java")
    done = subprocess.run(
        [str(find_java().program), "-cp", class_path("samza"), str(source)],
        input="\n".join(_groups(random.Random(1554))),
        capture_output=True,
        text=True,
        check=True,
    )
    RECORDED.write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    _record()
