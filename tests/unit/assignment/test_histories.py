"""Random histories of a group: every aim holds after every step, and no other result has fewer moves."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from samza_dagster.assignment import group, unplaced
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import active_task_of
from tests.unit.assignment import histories as of
from tests.unit.assignment.groups import locality

pytestmark = pytest.mark.unit

HISTORIES = int(os.environ.get("HISTORIES", "900"))
"""`make test-assignment` has 12,000."""
STEPS = 4
OFTEN = 0.995
"""With standbys, of all steps those with no move too many; the others have one."""


@pytest.mark.parametrize(
    ("replicas", "beside_samza"), [(0, False), (1, False), (1, True), (2, False)]
)
def test_every_aim_after_every_step(replicas: int, beside_samza: bool) -> None:
    """Legality, no start without a standby that is there, and evenness: none can be better.

    Without standbys no other result has fewer moves either, and with them hardly ever. Samza's own processors
    hold none, and actives may start there without.
    """
    more = Counter[int]()
    for seed in range(HISTORIES // 4):
        history = of.History(random.Random(f"{replicas} {seed}"), replicas, beside_samza)
        for step in range(STEPS):
            containers = group(
                history.tasks,
                history.locality,
                history.processors,
                actives_only=history.actives_only,
            )
            where = f"replicas {replicas}, seed {seed}, step {step}"
            legal_and_warm(containers, history, where)
            more[even(containers, history, where)] += 1
            history.locality |= locality(containers, history.processors)
            history.change()
    assert set(more) <= ({0, 1} if replicas else {0})
    assert more[0] >= OFTEN * more.total()


def legal_and_warm(containers: of.Containers, history: of.History, where: str) -> None:
    """Two copies never share a location, standbys are placed while there is one, none starts cold."""
    tasks = of.placed(containers, TaskMode.ACTIVE) | of.placed(containers, TaskMode.STANDBY)
    copies = Counter(
        (active_task_of(name), history.processors[processor]) for name, processor in tasks.items()
    )
    assert max(copies.values()) == 1, where
    placed = of.placed(containers, TaskMode.ACTIVE).values()
    places = [history.standby_locations - {history.processors[each]} for each in placed]
    lacking = sum(max(0, history.replicas - len(each)) for each in places)
    assert len(unplaced(history.tasks, containers)) == lacking, where
    assert of.cold_starts(containers, history) == 0, where


def even(containers: of.Containers, history: of.History, where: str) -> int:
    """Moves more than the fewest with which the loads can be as even as they can be."""
    actives = of.placed(containers, TaskMode.ACTIVE)
    loads = Counter(actives.values())
    best, fewest = of.best_actives(history)
    assert of.sum_of_squares(loads, history.processors) == best, where
    more = sum(not of.stays(name, each, history) for name, each in actives.items()) - fewest
    if history.replicas == 1:
        standbys = of.placed(containers, TaskMode.STANDBY)
        best, fewest = of.best_standbys(containers, history)
        loads.update(standbys.values())
        assert of.sum_of_squares(loads, history.processors) == best, where
        more += sum(
            not (of.stays(name, each, history) or of.stays(active_task_of(name), each, history))
            for name, each in standbys.items()
        )
        more -= fewest
    assert more >= 0, where
    return more
