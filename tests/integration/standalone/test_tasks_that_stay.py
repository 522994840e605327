"""Tasks that a new version leaves where they are: how long they put nothing out, by an independent consumer.

Three standalone processors with real Samza containers, Kafka and ZooKeeper, while input comes steadily.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from samza_dagster.sandbox import process
from samza_dagster.sandbox.judge import Judge
from tests.rig.pace import PACE
from tests.rig.processor_group import ProcessorGroup, fenced_group
from tests.rig.waiting import until

pytestmark = pytest.mark.standalone

IDS = ("p1", "p2", "p3")
BOUND_S = 3.0
AGREES_S = 60.0


@dataclass
class Rig:
    """The group, who is in it, and who judges it."""

    group: ProcessorGroup
    judge: Judge
    ids: tuple[str, ...] = IDS

    def settled(self, *ids: str, after_version: int = 0) -> dict[str, str]:
        """Active task → processor, once exactly these run what they are to, their standbys too."""
        self.group.wait_for(*ids, within_s=AGREES_S, after_version=after_version)
        places = self.group.wait_until_settled(within_s=AGREES_S)
        return {task: pid for task, pid in places.items() if not task.startswith("Standby-")}

    def is_steady(self) -> bool:
        """Of no task were outputs missing for a second of late: JVMs that start all at once silence a whole group."""
        now_ms = _now_ms()
        verdict = self.judge.judge(window_ms=(now_ms - 2_000, now_ms))
        return all(gap.gap_ms < 1_000 for gap in verdict.gaps)

    def place(self, task: str, host: str) -> None:
        """By the command."""
        command = [
            *(sys.executable, "-m", "samza_dagster.cli.main", "place", task, "--to", host),
            *("--config", str(self.group.files.config), "--zookeeper", self.group.server.hosts),
        ]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Three processors that are at work, and a load that goes on."""
    with (
        fenced_group(tmp_path_factory.mktemp("group"), has_load=True) as group,
        closing(Judge(group.broker.bootstrap_servers)) as judge,
    ):
        for pid in IDS:
            group.start(pid)
        yield Rig(group, judge)


def who_leaves_as_planned(rig: Rig, before: dict[str, str]) -> tuple[str, ...]:
    """The others get its tasks."""
    del before
    process.stop_all([rig.group.processes["p1"]], grace_s=60)
    return ("p2", "p3")


def who_comes_back(rig: Rig, before: dict[str, str]) -> tuple[str, ...]:
    """And gets standby tasks."""
    del before
    rig.group.start("p1")
    return IDS


def a_task_is_moved_away(rig: Rig, before: dict[str, str]) -> tuple[str, ...]:
    """From a processor that keeps another one, to the one that has the fewest."""
    counts = Counter(before.values())
    giver, getter = max(IDS, key=counts.__getitem__), min(IDS, key=counts.__getitem__)
    rig.place(next(task for task, pid in before.items() if pid == giver), f"host-{getter}")
    return IDS


def who_is_killed(rig: Rig, before: dict[str, str]) -> tuple[str, ...]:
    """It has a task by then, which goes to where its standby is."""
    assert "p1" in before.values()
    rig.group.processes["p1"].send(signal.SIGKILL)
    return ("p2", "p3")


CHANGES = {
    "a task is moved out of a container": a_task_is_moved_away,
    "a planned leave": who_leaves_as_planned,
    "a processor comes back": who_comes_back,
    "a task is moved to it": a_task_is_moved_away,
    "it is killed": who_is_killed,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_task_that_stays_is_silent_for_three_seconds_at_most(
    rig: Rig, change: Callable[[Rig, dict[str, str]], tuple[str, ...]]
) -> None:
    """Where its processor only gets tasks its process is the same; where that gives one up, another one goes on."""
    before = rig.settled(*rig.ids)
    assert rig.judge.judge(deadline_s=120 * PACE).is_good
    until("outputs come steadily", rig.is_steady, seconds=AGREES_S)
    version, processes = rig.group.view().version, rig.group.active_processes()
    began_ms = _now_ms()
    rig.ids = change(rig, before)
    after = rig.settled(*rig.ids, after_version=version)
    agreed_s = (_now_ms() - began_ms) / 1_000
    verdict = rig.judge.judge(deadline_s=120 * PACE, window_ms=(began_ms, _now_ms()))
    assert (verdict.missing, verdict.unexplained) == (0, 0)
    assert rig.group.two_owners() == []

    silent_s = {f"Partition {gap.partition}": gap.gap_ms / 1_000 for gap in verdict.gaps}
    stayed = [task for task, pid in after.items() if before[task] == pid]
    now = rig.group.active_processes()
    ran_on = {task for task in stayed if now[task] == processes[task]}
    reported_s = {
        row["processor_id"]: (row["silent_ms"] or 0) / 1_000
        for row in rig.group.status()["processors"]
    }
    for task, pid in sorted(after.items()):
        how = "ran on" if task in ran_on else "stayed" if task in stayed else "moved"
        print(f"{change.__name__}: {task} {how} {silent_s[task]:.1f} s, {pid} {reported_s[pid]} s")
    print(f"{change.__name__}: settled after {agreed_s:.1f} s")
    gave_up = {pid for task, pid in before.items() if after[task] != pid}
    for task in stayed:
        assert task in ran_on or after[task] in gave_up, "who only gets tasks stops none"
        assert silent_s[task] <= BOUND_S * (1 if task in ran_on else PACE)
    for pid in rig.ids:
        is_restarted = any(after[task] == pid for task in set(stayed) - ran_on)
        assert (reported_s[pid] > 0) == is_restarted


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
