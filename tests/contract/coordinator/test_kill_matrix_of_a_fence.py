"""The kill matrix of a lost host whose active the brokers shut out; no lease is waited for.

`test_kill_matrix.py` tells what is judged. Beside that: the lost one is denied everything at
the brokers, nobody else is, its successor's certificate says `fenced`, and of whoever is dead
the brokers know nothing once its host is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from samza_dagster.sandbox.broker import Broker
from tests.rig.crashing_points import FENCE
from tests.rig.fence_broker import fenced_job
from tests.rig.fence_scenario import HOST_FENCED
from tests.rig.job import Job
from tests.rig.kill_matrix import go_through_these, go_through_twice_killed
from tests.rig.kill_points import CRASHING, KilledJob, KillPoint
from tests.rig.kill_scenarios import SETTINGS

pytestmark = pytest.mark.killmatrix

RULE_SET = f"{FENCE}: its rule is set"
AROUND_A_FENCE = {
    ("before-effect", FENCE),
    ("after-effect", f"{FENCE} 0"),
    ("after-effect", RULE_SET),
    ("before-acknowledgement", FENCE),
}
SUCCESSORS = (
    KillPoint("before-effect", 1, FENCE),
    KillPoint("after-effect", 1, RULE_SET),
    KillPoint("before-acknowledgement", 1, FENCE),
)
PARTS = 2


@pytest.fixture
def fenced(broker: Broker, tmp_path: Path) -> Iterator[Callable[[str], KilledJob]]:
    """Jobs with the fence whose coordinators can be killed at any point, one more beside each."""
    made: list[Job] = []

    def make(name: str) -> KilledJob:
        (tmp_path / name).mkdir()
        job = fenced_job(
            broker,
            tmp_path / name,
            name,
            partitions=4,
            coordinator_module=CRASHING,
            settings=SETTINGS,
            **HOST_FENCED.options,
        )
        made.append(job)
        killed = KilledJob(job.start())
        killed.wait_beside()
        return killed

    yield make
    for job in made:
        job.close()


def around(points: Sequence[KillPoint]) -> set[tuple[str, str]]:
    """Those that concern the fence, without their numbers."""
    return {(point.point, point.what) for point in points if point.what.startswith(FENCE)}


def test_a_coordinator_killed_around_a_fence_comes_to_the_right_end(
    fenced: Callable[[str], KilledJob],
) -> None:
    """Each point of the fence itself; then the same where the successor dies at its own fence."""
    killed = fenced("fenced")
    points = [p for p in killed.points_of(HOST_FENCED) if p.what.startswith(FENCE)]
    assert around(points) == AROUND_A_FENCE
    assert go_through_these(killed, HOST_FENCED, points) == []
    assert around(killed.deaths) == AROUND_A_FENCE
    assert go_through_twice_killed(killed, HOST_FENCED, points, SUCCESSORS) == []
    killed.judge()
    print(f"{HOST_FENCED.name}: {len(points)} kill points twice")


@pytest.mark.parametrize("first", range(PARTS))
def test_a_coordinator_killed_beside_a_fence_comes_to_the_right_end(
    fenced: Callable[[str], KilledJob], first: int
) -> None:
    """Every so manieth of the other points, from `first` on.

    By kind and number, which both parts agree on; what comes first in time differs.
    """
    killed = fenced(f"fenced-{first}")
    beside = [p for p in killed.points_of(HOST_FENCED) if not p.what.startswith(FENCE)]
    points = sorted(beside, key=lambda p: (p.point, p.number))[first::PARTS]
    assert go_through_these(killed, HOST_FENCED, points) == []
    killed.judge()
    print(f"{HOST_FENCED.name}: {len(points)} kill points")
