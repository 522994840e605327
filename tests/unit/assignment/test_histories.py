"""Random histories of a group: every aim holds after every step, by the fewest moves that allow it."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from samza_dagster.assignment import group, unplaced
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import active_task_of
from tests.unit.assignment import histories as of
from tests.unit.assignment.groups import tasks

pytestmark = pytest.mark.unit

HISTORIES = int(os.environ.get("HISTORIES", "900"))
"""`make test-assignment` has 12,000."""
STEPS = 4


@pytest.mark.parametrize(
    ("replicas", "beside_samza"), [(0, False), (1, False), (1, True), (2, False)]
)
def test_every_aim_after_every_step(replicas: int, beside_samza: bool) -> None:
    """Legality, no start without a standby that is there, evenness, and moves: none can be better.

    Samza's own processors hold no standbys, and actives may start there without.
    """
    for seed in range(HISTORIES // 4):
        every_aim_holds(replicas, beside_samza, seed)


@pytest.mark.parametrize(
    ("beside_samza", "seed"),
    [
        pytest.param(False, 1242, id="two come home for one that leaves it"),
        pytest.param(True, 1000, id="a standby takes the place that its active has left"),
        pytest.param(
            True, 2455, id="a standby that had no place since is known where its active was"
        ),
    ],
)
def test_a_move_is_saved_where(beside_samza: bool, seed: int) -> None:
    """Found among random histories: each had one move or two more than the fewest."""
    every_aim_holds(1, beside_samza, seed)


@pytest.mark.parametrize("hosts", ["11123", "111123", "12233344444"])
def test_where_most_processors_share_a_location_a_standby_makes_room_for_another(
    hosts: str,
) -> None:
    """Else it would be less even than it could be: their standbys may only go to the few others."""
    for seed in range(100):
        history = of.History(random.Random(f"{hosts} {seed}"), 1)
        for each in range(history.lots.randint(4, 10)):
            history.processors[f"p{each}"] = f"host-{history.lots.choice(hosts)}"
        history.tasks = tasks(history.lots.randint(8, 20), 1)
        containers = group(history.tasks, {}, history.processors)
        legal_and_warm(containers, history, f"hosts {hosts}, seed {seed}")
        even_with_the_fewest_moves(containers, history, f"hosts {hosts}, seed {seed}")


@pytest.mark.parametrize("replicas", [1, 2])
def test_who_is_known_by_its_location_alone_starts_warm_too(replicas: int) -> None:
    """As once no version can be read any more: where each copy ran last its containers have written."""
    for seed in range(HISTORIES // 20):
        history = of.History(random.Random(f"{replicas} {seed}"), replicas)
        history.ran(group(history.tasks, {}, history.processors))
        for _ in range(2):
            history.change()
        history.locality = {n: replace(at, processor_id="") for n, at in history.locality.items()}
        containers = group(history.tasks, history.locality, history.processors)
        legal_and_warm(containers, history, f"replicas {replicas}, seed {seed}")


def every_aim_holds(replicas: int, beside_samza: bool, seed: int) -> None:
    """After each step of one history."""
    history = of.History(random.Random(f"{replicas} {seed}"), replicas, beside_samza)
    for step in range(STEPS):
        containers = group(
            history.tasks, history.known, history.processors, actives_only=history.actives_only
        )
        where = f"replicas {replicas}, seed {seed}, step {step}"
        legal_and_warm(containers, history, where)
        even_with_the_fewest_moves(containers, history, where)
        history.ran(containers)
        history.change()


def legal_and_warm(containers: of.Containers, history: of.History, where: str) -> None:
    """Two copies never share a location, standbys are placed while there is one, none starts cold."""
    places = of.placed(containers, TaskMode.ACTIVE) | of.placed(containers, TaskMode.STANDBY)
    copies = Counter(
        (active_task_of(name), history.processors[processor]) for name, processor in places.items()
    )
    assert max(copies.values()) == 1, where
    placed = of.placed(containers, TaskMode.ACTIVE).values()
    others = [history.standby_locations - {history.processors[each]} for each in placed]
    lacking = sum(max(0, history.replicas - len(each)) for each in others)
    assert len(unplaced(history.tasks, containers)) == lacking, where
    assert of.cold_starts(containers, history) == 0, where


def even_with_the_fewest_moves(containers: of.Containers, history: of.History, where: str) -> None:
    """The loads are as even as they can be, by the fewest moves with which they can."""
    actives = of.placed(containers, TaskMode.ACTIVE)
    loads = Counter(actives.values())
    moves = sum(not of.stays(name, each, history) for name, each in actives.items())
    found = of.sum_of_squares(loads, history.processors), moves
    assert found == of.best_actives(history), where
    if history.replicas == 1:
        standbys = of.placed(containers, TaskMode.STANDBY)
        loads.update(standbys.values())
        moves = sum(
            not (of.stays(name, each, history) or of.stays(active_task_of(name), each, history))
            for name, each in standbys.items()
        )
        found = of.sum_of_squares(loads, history.processors), moves
        assert found == of.best_standbys(containers, history), where
