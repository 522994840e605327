"""Random histories of a group, and what the best result would be, computed in another way.

The bound is a min-cost flow: each copy has a row, each processor a column for its first, second,
… place, which costs more the more it has, and above that the moves. SciPy solves it exactly.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from samza_dagster.assignment import TaskLocality
from samza_dagster.assignment.former import former_processors
from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.model.naming import active_task_of
from tests.unit.assignment.groups import locality, tasks

Containers = Mapping[str, ContainerModel]
LOAD, NEVER = 1_000_000.0, 1e12
"""Of one place more on a processor, in moves; of what may not be."""


def placed(containers: Containers, mode: TaskMode) -> dict[str, str]:
    """Task → processor, of one mode."""
    return {
        name: processor
        for processor, container in containers.items()
        for name, each in container.tasks.items()
        if each.task_mode is mode
    }


@dataclass
class History:
    """A group that processors join and leave, tasks are added to, and locations return to.

    `beside_samza`: every third processor holds no standbys.
    """

    lots: random.Random
    replicas: int
    beside_samza: bool = False
    processors: dict[str, str] = field(default_factory=dict[str, str])
    tasks: list[TaskModel] = field(default_factory=list[TaskModel])
    locality: dict[str, TaskLocality] = field(default_factory=dict[str, TaskLocality])
    versions: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    born: int = 0

    def __post_init__(self) -> None:
        for _ in range(self.lots.randint(1, 6)):
            self.join()
        self.tasks = tasks(self.lots.randint(1, 14), self.replicas)

    def join(self) -> None:
        """A processor with a new id, at one of five locations."""
        kind = "j" if self.beside_samza and self.born % 3 == 2 else "p"
        self.processors[f"{kind}{self.born}"] = f"host-{self.lots.randint(1, 5)}"
        self.born += 1

    @property
    def actives_only(self) -> frozenset[str]:
        """Samza's own processors."""
        return frozenset(each for each in self.processors if each.startswith("j"))

    @property
    def standby_locations(self) -> set[str]:
        """Where a processor is that may hold standbys."""
        return {at for each, at in self.processors.items() if each not in self.actives_only}

    @property
    def known(self) -> dict[str, TaskLocality]:
        """Where each task was last, and formerly."""
        former = former_processors(self.versions[1:])
        return {
            name: replace(each, former=former(name, each.processor_id))
            for name, each in self.locality.items()
        }

    def ran(self, containers: Containers) -> None:
        """That is the newest version."""
        self.locality |= locality(containers, self.processors)
        places = {name: pid for pid, each in containers.items() for name in each.tasks}
        self.versions.insert(0, places)

    def change(self) -> str:
        """What happens next."""
        what = self.lots.choice(("join", "join", "leave", "crash", "add", "restart", "nothing"))
        if what == "join" and len(self.processors) < 8:
            self.join()
        if what == "leave" and len(self.processors) > 1:
            del self.processors[self.lots.choice(sorted(self.processors))]
        if what == "crash":
            gone = self.lots.choice(sorted(self.processors.values()))
            left = {each: at for each, at in self.processors.items() if at != gone}
            self.processors = left or self.processors
        if what == "add":
            have = len(self.tasks) // (1 + self.replicas)
            self.tasks = tasks(have + self.lots.randint(1, 3), self.replicas)
        if what == "restart":  # the same processor at another location: its state stayed behind
            self.processors[self.lots.choice(sorted(self.processors))] = "host-6"
        return what


def sum_of_squares(loads: Mapping[str, int], processors: Mapping[str, str]) -> int:
    """Smaller is evener; of a given number of tasks, it is least where no two loads differ by two."""
    return sum(loads.get(each, 0) ** 2 for each in processors)


def cold_starts(containers: Containers, history: History) -> int:
    """Actives that are to have standbys, and start where no copy was though one is left."""
    found = 0
    for name, processor in placed(containers, TaskMode.ACTIVE).items():
        warm = warm_locations(name, history)
        is_cold = warm is not None and history.processors[processor] not in warm
        found += is_cold and processor not in history.actives_only
    return found


def warm_locations(active: str, history: History) -> set[str] | None:
    """Where it may start with its state, if it is to have standbys and a copy is left."""
    alive = set(history.processors.values())
    copies = [each for each in history.tasks if active_task_of(each.task_name) == active]
    known = [
        history.locality[each.task_name] for each in copies if each.task_name in history.locality
    ]
    return {each.location_id for each in known} & alive or None if len(copies) > 1 else None


def best_actives(history: History) -> tuple[int, int]:
    """The least sum of squares of the actives, and the fewest moves that it takes."""
    rows = [each.task_name for each in history.tasks if each.task_mode is TaskMode.ACTIVE]
    legal = [warm_locations(name, history) for name in rows]
    also = history.actives_only
    return _best(rows, legal, {}, history, [{name} for name in rows], also=also)


def best_standbys(containers: Containers, history: History) -> tuple[int, int]:
    """The same for one standby of each, where the actives are as they are."""
    actives = placed(containers, TaskMode.ACTIVE)
    everywhere = history.standby_locations
    standbys = [each.task_name for each in history.tasks if each.task_mode is TaskMode.STANDBY]
    elsewhere = {
        name: everywhere - {history.processors[actives[active_task_of(name)]]} for name in standbys
    }
    rows = [name for name in standbys if elsewhere[name]]
    if not rows:
        return sum_of_squares(Counter(actives.values()), history.processors), 0
    legal = [elsewhere[name] for name in rows]
    # Where its active was, and no longer is, its state is too.
    homes = [{name, active_task_of(name)} for name in rows]
    loads, never = Counter(actives.values()), history.actives_only
    return _best(rows, legal, loads, history, homes, never=never)


def stays(name: str, processor: str, history: History) -> bool:
    """Whether the task was on this very processor, and its state is still there."""
    known = history.locality.get(name)
    return known == TaskLocality(processor, history.processors[processor])


def _best(
    rows: Sequence[str],
    legal: Sequence[set[str] | None],
    loads: Mapping[str, int],
    history: History,
    homes: Sequence[set[str]],
    *,
    also: Set[str] = frozenset(),
    never: Set[str] = frozenset(),
) -> tuple[int, int]:
    columns = [(each, place) for each in history.processors for place in range(len(rows))]
    cost = np.empty((len(rows), len(columns)))
    for row, places in enumerate(legal):
        for column, (processor, place) in enumerate(columns):
            is_there = places is None or history.processors[processor] in places
            if processor in never or not (is_there or processor in also):
                cost[row, column] = NEVER
                continue
            moved = not any(stays(name, processor, history) for name in homes[row])
            cost[row, column] = LOAD * (2 * (loads.get(processor, 0) + place) + 1) + moved
    chosen = linear_sum_assignment(cost)
    total = round(cost[chosen].sum())
    before = sum_of_squares(loads, history.processors)
    return before + total // round(LOAD), total % round(LOAD)
