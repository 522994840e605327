"""What `auto_failover` remembers of a large, busy job: of every container, in a small cursor."""

from __future__ import annotations

import random
import time

import pytest

from samza_dagster.orchestration.watch.memory import Memory
from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import judge

pytestmark = pytest.mark.unit
BEGIN = 1_700_000_000_000
CONTAINERS = 1_000


RNG = random.Random(7)
IDENTS = [f"{RNG.getrandbits(128):032x}" for _ in range(CONTAINERS)]
BACKLOGS = [RNG.randrange(20_000, 90_000) for _ in range(CONTAINERS)]


def busy(frozen: str, look: int) -> Observation:
    """Each active has a backlog, that goes up and down, and commits; one of them doesn't."""
    containers = tuple(
        ContainerSeen(
            str(number),
            True,
            "running",
            f"h{number % 100}",
            IDENTS[number],
            reported_ms=BEGIN + look * 30_000 + RNG.randrange(20_000),
            backlog=BACKLOGS[number] + look % 2 * 500,
            committed=1_000_000 + (0 if str(number) == frozen else look * 997 + number),
        )
        for number in range(CONTAINERS)
    )
    hosts = {f"h{n}": "alive" for n in range(100)}
    return Observation("demo/1", "samza_dagster", containers, hosts)


@pytest.mark.parametrize("frozen", ["517", "999"])
def test_a_frozen_container_among_a_thousand_busy_ones_is_seen(frozen: str) -> None:
    """Wherever it stands in the order, by a cursor that Dagster kept from look to look."""
    memory, now = Memory("demo/1"), BEGIN
    for look in range(9):
        now += 30_000
        judged = judge(busy(frozen, look), memory, AutoFailover(), now)
        kept = Memory.read(judged.memory.to_text(), "demo/1")
        assert kept == judged.memory
        memory = kept
    assert [(s.subject, s.confirmed) for s in memory.suspects.values()] == [(frozen, True)]


def test_the_cursor_of_a_thousand_busy_containers_is_small_and_quick() -> None:
    """Any text column of a database that Dagster knows holds it; MySQL's has 64 KB."""
    memory, now = Memory("demo/1"), BEGIN
    for look in range(3):
        now += 20_000
        memory = judge(busy("0", look), memory, AutoFailover(), now).memory
    observation = busy("0", 3)
    began = time.process_time()
    judged = judge(observation, memory, AutoFailover(), now + 600)
    text = judged.memory.to_text()
    assert Memory.read(text, "demo/1") == judged.memory
    assert time.process_time() - began < 1
    assert len(memory.trends) == CONTAINERS
    assert len(text) < 40_000
