"""The kill matrix of a lost host whose active the brokers shut out; no lease is waited for.

`test_kill_matrix.py` tells what is judged. Beside that: the lost one is denied everything at
the brokers, nobody else is, its successor's certificate says `fenced`, and of whoever is dead
the brokers know nothing once its host is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from samza_dagster.coordinator.fencing.broker_fence import present
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.authorizer import DENY, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox.broker import Broker
from tests.rig.at_rest import Processors
from tests.rig.crashing_points import FENCE
from tests.rig.fence_broker import fenced_job
from tests.rig.history import followers
from tests.rig.job import Job
from tests.rig.kill_matrix import go_through_these, go_through_twice_killed
from tests.rig.kill_points import CRASHING, KilledJob, KillPoint, Scenario
from tests.rig.kill_scenarios import SETTINGS, set_apart, swapped
from tests.rig.waiting import until

pytestmark = pytest.mark.killmatrix


@dataclass(frozen=True)
class BrokersWord:
    """What the brokers know of a job's containers, asked at their plain listener."""

    authorizer: Authorizer
    principals: Principals

    @classmethod
    def of(cls, job: Job) -> BrokersWord:
        """Of a job with the fence."""
        principals = Principals.of(job.properties)
        assert principals is not None
        return cls(Authorizer(KafkaCluster(job.bootstrap_servers)), principals)

    def known(self) -> set[str]:
        """Execution ids with a login or a rule."""
        return set(present(self.principals, self.authorizer))

    def denied(self, execution_id: str) -> list[str]:
        """Operations that it may not do, whatever else it may."""
        rules = self.authorizer.rules(self.principals.principal(execution_id))
        return [rule.operation for rule in rules if rule.permission == DENY]

    def only_who_runs_is_known(self, job: Job) -> None:
        """Waits for it: of whoever is dead neither a login nor a rule is left."""

        def strangers() -> set[str]:
            return self.known() ^ {p["execution_id"] for p in job.processors().values()}

        until("the brokers know who runs, and nobody else", lambda: not strangers())


def _restore(job: Job, before: Processors) -> None:
    word = BrokersWord.of(job)
    _judge(word, job, before)
    job.start_agent(before["0"]["host"])
    word.only_who_runs_is_known(job)


def _judge(word: BrokersWord, job: Job, before: Processors) -> None:
    """Who was lost is shut out and nobody else; the certificate of who follows says so."""
    lost, now = before["0"]["execution_id"], job.processors()
    assert word.denied(lost) == ["ALL"]
    assert not [name for name, p in now.items() if word.denied(p["execution_id"])]
    found = followers(job.connection, lost)
    assert found == {now["0"]["execution_id"]: ("broker", "fenced")}, (lost, now["0"], found)


HOST_FENCED = Scenario(
    "host-fenced",
    lambda job, before: job.kill_host(before["0"]["host"]),
    swapped,
    prepare=set_apart,
    restore=_restore,
    # The lease outlasts all patience: whoever waited for it would never come to the end.
    options={"lease_ms": 600_000, "host_timeout_ms": 3_000},
)


# The kill matrix of a lost host whose active the brokers shut out; no lease is waited for.

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
