"""Standalone processors with real containers, whose leader asks its grouper again every three seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from samza_dagster.sandbox import process
from tests.rig.processor_group import ProcessorGroup, fenced_group
from tests.rig.waiting import until

pytestmark = pytest.mark.standalone

IDS = ("p1", "p2", "p3")
TWO = IDS[:2]
PROBE_S = 3.0
AGREES_S = 60.0


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessorGroup]:
    """Three processors that share four active tasks with a standby each."""
    with fenced_group(tmp_path_factory.mktemp("group"), probe_ms=round(1_000 * PROBE_S)) as group:
        for pid in IDS:
            group.start(pid)
        yield group


def actives(group: ProcessorGroup, *ids: str) -> dict[str, str]:
    """Active task → processor, once all run what they are to."""
    group.wait_for(*ids, within_s=AGREES_S)
    places = group.wait_until_settled(within_s=AGREES_S)
    return {task: pid for task, pid in places.items() if not task.startswith("Standby-")}


def even(group: ProcessorGroup, *ids: str) -> dict[str, str] | None:
    """The same, once none of these processors has two more than another."""
    found = actives(group, *ids)
    counts = [Counter(found.values())[pid] for pid in ids]
    return found if max(counts) - min(counts) <= 1 else None


def test_a_group_at_rest_stays_at_rest(group: ProcessorGroup) -> None:
    """Over ten probes no version is made, and no container is another one."""
    until("an even spread", lambda: even(group, *IDS), seconds=AGREES_S)
    version, processes, began = group.view().version, group.active_processes(), time.monotonic()
    until("ten probes", lambda: time.monotonic() - began > 10.5 * PROBE_S, seconds=20 * PROBE_S)
    assert group.view().version == version
    assert group.active_processes() == processes


def test_a_rolling_restart_gives_each_processor_its_tasks_again(group: ProcessorGroup) -> None:
    """As an upgrade does it: each of two is stopped, and comes back after the other one has all tasks."""
    process.stop_all([group.processes["p3"]], grace_s=60)
    before = until("an even spread", lambda: even(group, *TWO), seconds=AGREES_S)
    for down in TWO:
        process.stop_all([group.processes[down]], grace_s=60)
        (other,) = set(TWO) - {down}
        assert set(actives(group, other).values()) == {other}
        group.start(down)
        after = until("an even spread", lambda: even(group, *TWO), seconds=AGREES_S)
        assert after == before
    assert group.two_owners() == []
