"""SIGKILL of the coordinator at every commit, effect and acknowledgement of what it does.

For each kill point, whoever leads next comes to the one right end: the request succeeds
once and truly, or the active runs in its standby's place; whoever isn't concerned keeps
its process; no processor had two processes and no group two members on a host, by the
kernel's locks; nothing is held for nobody; the audit history is whole.

A spread sample is in the contract level; `python -m pytest -m killmatrix` is the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from tests.rig.job import Job
from tests.rig.kill_points import CRASHING, KilledJob, KillPoint, Scenario
from tests.rig.kill_scenarios import SCENARIOS, SETTINGS

SAMPLE = {"move": 2, "swap": 3, "spin-up": 1, "stop-standby": 1, "failover-refused": 2}
"""So many points of each scenario in the contract level: those that take a second or two."""
TRIES = 3

Make = Callable[..., KilledJob]


@pytest.fixture
def killed_job(bootstrap_servers: str, tmp_path: Path) -> Iterator[Make]:
    """Jobs whose coordinators can be killed at any point, one more waiting beside each."""
    made: list[Job] = []

    def make(name: str, **options: int) -> KilledJob:
        name = f"killed-{name}"
        job = Job(
            tmp_path / name,
            bootstrap_servers,
            name,
            input_topic="killed-input",
            coordinator_module=CRASHING,
            settings=SETTINGS,
            **options,
        )
        made.append(job)
        ensure_topic(KafkaCluster(bootstrap_servers), job.input_topic, partitions=4)
        killed = KilledJob(job.start())
        killed.wait_beside()
        return killed

    yield make
    for job in made:
        job.close()


def spread(points: Sequence[KillPoint], number: int) -> list[KillPoint]:
    """`number` of them at equal distances, from the first quarter of a distance on."""
    return [points[(4 * place + 1) * len(points) // (4 * number)] for place in range(number)]


def unreached(killed: KilledJob, scenario: Scenario, points: Sequence[KillPoint]) -> list[str]:
    """Kills at each; those that weren't come to though tried again, which order of arrival allows."""
    left: list[str] = []
    for point in points:
        try:
            if not any(killed.run(scenario, point) for _ in range(TRIES)):
                left.append(str(point))
        except AssertionError as error:
            raise AssertionError(f"{scenario.name}, killed at {point}: {error}") from error
    return left


@pytest.mark.contract
def test_a_coordinator_killed_at_some_points_comes_to_the_right_end(killed_job: Make) -> None:
    """One job goes through the sample of all scenarios that wait for no timeout."""
    killed = killed_job("sample")
    for scenario in SCENARIOS:
        if number := SAMPLE.get(scenario.name, 0):
            points = spread(killed.points_of(scenario), number)
            assert unreached(killed, scenario, points) == []
    killed.judge()


@pytest.mark.killmatrix
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_coordinator_killed_at_any_point_comes_to_the_right_end(
    killed_job: Make, scenario: Scenario
) -> None:
    """Every point of the scenario, one after the other on one job."""
    killed = killed_job(scenario.name, **scenario.options)
    points = killed.points_of(scenario)
    assert {point.point for point in points} >= {"before-commit", "after-commit", "after-effect"}
    assert unreached(killed, scenario, points) == []
    killed.judge()
    print(f"\n{scenario.name}: {len(points)} kill points")
