"""What `auto_failover` remembers of a large, busy job: of every container, in a small cursor."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from watching import BEGIN, container

from samza_dagster.orchestration.watch.auto_failover import quiet
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.failover import judge
from samza_dagster.orchestration.watch.observation import Observation
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.unit
CONTAINERS = 1_000


RNG = random.Random(7)
IDENTS = [f"{RNG.getrandbits(128):032x}" for _ in range(CONTAINERS)]
BACKLOGS = [RNG.randrange(20_000, 90_000) for _ in range(CONTAINERS)]


def busy(frozen: str, look: int) -> Observation:
    """Each active has a backlog, that goes up and down, and commits; one of them doesn't."""
    containers = tuple(
        container(
            *(str(number), f"h{number % 100}"),
            incarnation=IDENTS[number],
            reported_ms=BEGIN + look * 30_000 + RNG.randrange(20_000),
            left=BACKLOGS[number] + look % 2 * 500,
            position=1_000_000 + (0 if str(number) == frozen else look * 997 + number),
        )
        for number in range(CONTAINERS)
    )
    hosts = {f"h{n}": "alive" for n in range(100)}
    return Observation("demo/1", "samza_dagster", containers, hosts)


@pytest.mark.parametrize("frozen", ["517", "999"])
def test_a_frozen_container_among_a_thousand_busy_ones_is_seen(frozen: str) -> None:
    """Wherever it stands in the order, by a cursor that Dagster kept from look to look."""
    cursor, now = FailoverCursor("demo/1"), BEGIN
    for look in range(9):
        now += 30_000
        judged = judge(cursor, busy(frozen, look), AutoFailover(), now)
        kept = FailoverCursor.read(judged.cursor.to_text(), "demo/1")
        assert kept == judged.cursor
        cursor = kept
    assert [(s.subject, s.is_confirmed) for s in cursor.suspects.values()] == [(frozen, True)]


def test_the_cursor_of_a_thousand_busy_containers_is_small_and_quick() -> None:
    """Any text column of a database that Dagster knows holds it; MySQL's has 64 KB."""
    cursor, now = FailoverCursor("demo/1"), BEGIN
    for look in range(3):
        now += 20_000
        cursor = judge(cursor, busy("0", look), AutoFailover(), now).cursor
    observation = busy("0", 3)
    began = time.process_time()
    judged = judge(cursor, observation, AutoFailover(), now + 600)
    text = judged.cursor.to_text()
    assert FailoverCursor.read(text, "demo/1") == judged.cursor
    assert time.process_time() - began < 1
    assert len(judged.cursor.progress) == CONTAINERS
    assert len(text) < 40_000


def test_a_job_all_of_which_looks_bad_is_not_judged_container_by_container() -> None:
    """No failover mends that: how much it is, is said, and the cursor stays small."""
    cursor, now = FailoverCursor("demo/1"), BEGIN
    for look in range(20):
        now += 30_000
        stuck = tuple(
            replace(c, position=7, left=50_000, reported_ms=now) for c in busy("0", look).containers
        )
        judged = judge(cursor, replace(busy("0", look), containers=stuck), AutoFailover(), now)
        cursor = judged.cursor
    assert (judged.too_many, judged.advice, dict(cursor.suspects)) == (CONTAINERS, (), {})
    assert quiet(judged, busy("0", 0)).startswith("1000 things look bad at once")
    assert len(cursor.to_text()) < 40_000
