"""Random histories of a group: every aim holds after every step, by the fewest moves that allow it."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from samza_dagster.assignment import TaskLocality, group, unplaced
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import ANY_HOST, active_task_of
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


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_what_is_pinned_goes_there_and_what_is_to_stay_stays(replicas: int) -> None:
    """All else is legal beside it, and no active leaves its location for one that a standby of it is to have."""
    for seed in range(HISTORIES // 9):
        where = f"replicas {replicas}, seed {seed}"
        history = of.History(random.Random(where), replicas, beside_samza=seed % 2 == 1)
        for _ in range(STEPS):
            before, lots = history.known, history.lots
            staying = {name for name in before if lots.random() < 0.3}
            pins = {
                each.task_name: f"host-{lots.randint(1, 5)}"
                for each in history.tasks
                if each.task_name not in staying and lots.random() < 0.3
            }
            pins |= {
                name: before[name].location_id for name in sorted(staying) if lots.random() < 0.3
            }
            known = {
                name: replace(
                    before.get(name, TaskLocality()),
                    stays=name in staying,
                    pinned_to=pins.get(name, ANY_HOST),
                )
                for name in before.keys() | pins.keys()
            }
            containers = group(
                history.tasks, known, history.processors, actives_only=history.actives_only
            )
            legal(containers, history, where)
            pinned_and_staying(containers, history, pins, staying, where)
            history.ran(containers)
            history.change()


def pinned_and_staying(
    containers: of.Containers,
    history: of.History,
    pins: dict[str, str],
    staying: set[str],
    where: str,
) -> None:
    """An active is where it is pinned or stays; a standby too, where no other copy of its task is."""
    actives = of.placed(containers, TaskMode.ACTIVE)
    places = actives | of.placed(containers, TaskMode.STANDBY)
    at = {name: history.processors[processor] for name, processor in places.items()}
    alive = set(history.processors.values())
    for name, location in pins.items():
        own = active_task_of(name)
        if name == own:
            assert at[name] == location or location not in alive, where
        elif location in history.standby_locations - {at[own]}:
            rivals = [each for each, other in pins.items() if other == location]
            found = [each for each in rivals if active_task_of(each) == own != each]
            assert any(at.get(each) == location for each in found), where
    for name in staying:
        known, own = history.locality[name], active_task_of(name)
        if known.processor_id not in history.processors or not of.stays(
            name, known.processor_id, history
        ):
            continue
        others = {at[each] for each in at if active_task_of(each) == own and each != name}
        if name == own or known.location_id not in others:
            assert places[name] == known.processor_id, where
    for name in actives.keys() & history.locality.keys() - pins.keys():
        last = history.locality[name].location_id
        claimed = {
            location for each, location in pins.items() if active_task_of(each) == name != each
        }
        assert at[name] not in claimed - {last} or last not in alive or not claimed, where


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
    """As `legal`, and none starts cold."""
    legal(containers, history, where)
    assert of.cold_starts(containers, history) == 0, where


def legal(containers: of.Containers, history: of.History, where: str) -> None:
    """Two copies never share a location, and standbys are placed while there is one."""
    places = of.placed(containers, TaskMode.ACTIVE) | of.placed(containers, TaskMode.STANDBY)
    copies = Counter(
        (active_task_of(name), history.processors[processor]) for name, processor in places.items()
    )
    assert max(copies.values()) == 1, where
    placed = of.placed(containers, TaskMode.ACTIVE).values()
    others = [history.standby_locations - {history.processors[each]} for each in placed]
    lacking = sum(max(0, history.replicas - len(each)) for each in others)
    assert len(unplaced(history.tasks, containers)) == lacking, where


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
