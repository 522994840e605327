"""A shadow beside Samza's own Application Master: its downtimes are those that an outsider sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import read_history
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.rig.yarn_job import places

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]
MOST_APART_S = 2.0
COMMAND = (sys.executable, "-m", "samza_dagster.cli.main")


@contextmanager
def shadowing(directory: Path, servers: str, yarn: str) -> Iterator[Path]:
    """A shadow as its command starts it; it ends at SIGTERM with exit status 0. Gives its log."""
    config, log = directory / "job.properties", directory / "shadow.jsonl"
    settings = demo_job.job_config(servers, actives=2, standbys=1)
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = (*COMMAND, "coordinator", "run", "--shadow", "--config", str(config))
    with (directory / "shadow.log").open("w") as said:
        process = subprocess.Popen([*command, "--yarn-resource-manager", yarn], stderr=said)
    try:
        until(
            "its first look is over",
            lambda: "listens beside" in (directory / "shadow.log").read_text(),
        )
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(30 * PACE) == 0
    finally:
        process.kill()
        process.wait()
        print((directory / "shadow.log").read_text())


def over(log: Path, kind: str, processor: str) -> ShadowEvent | None:
    """The event of a container, once it is over."""
    found = [e for e in read_history(log).events if (e.kind, e.processor) == (kind, processor)]
    return found[0] if found and found[0].state == "over" else None


def silence_s(judge: Judge, client: PlacementClient, processor: str, seen: ShadowEvent) -> float:
    """The longest silence in the outputs of a container's tasks around an event, by the broker's clock."""
    tasks = client.view().processors[processor].tasks
    numbers = [int(task.rpartition(" ")[2]) for task in tasks]
    assert seen.last_ms is not None
    assert seen.works_ms is not None
    window = seen.last_ms - 10_000, seen.works_ms + 10_000
    verdict = judge.judge(deadline_s=60 * PACE, partitions=numbers, window_ms=window)
    assert verdict.is_good
    return max(gap.gap_ms for gap in verdict.gaps) / 1000


def reported(log: Path) -> dict[str, Any]:
    told = subprocess.run(
        [*COMMAND, "shadow", "report", "--json", str(log)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(told.stdout)


def test_a_killed_active_and_a_move_have_the_downtimes_that_an_outsider_sees(
    sandbox: Sandbox, servers: str, client: PlacementClient, judge: Judge, tmp_path: Path
) -> None:
    """Within two seconds; and beside each stands what ours would have done, by its own rules."""
    yarn = str(sandbox.status()["resource_manager"])
    until("all run", lambda: set(places(sandbox)) == {"0", "0-0", "1", "1-0"}, seconds=120)
    hosts = {host.name for host in sandbox.hosts}
    with shadowing(tmp_path, servers, yarn) as log:
        # A container of Samza's own master reports once a minute.
        until(
            "every lag is known",
            lambda: all(lag.lag is not None for lag in client.lag()),
            seconds=120,
        )
        before = places(sandbox)
        os.kill(sandbox.yarn.processors()["0"]["pid"], signal.SIGKILL)
        killed = until("the failure is over", lambda: over(log, "failure", "0"), seconds=180)
        seen_s = silence_s(judge, client, "0", killed)
        print(f"killed: {killed.downtime_s} s by the shadow, {seen_s} s by the judge; {killed}")
        until("all run", lambda: set(places(sandbox)) == {"0", "0-0", "1", "1-0"}, seconds=120)
        free = sorted(hosts - {places(sandbox)[pid] for pid in ("1", "1-0")})[0]
        asked = client.place("1", free, allow_unknown_host=True, beyond_budget=True)
        answer = client.wait(asked.uuid, timeout_s=120 * PACE)
        assert answer.status_code is StatusCode.SUCCEEDED
        moved = until("the move is over", lambda: over(log, "placement", "1"), seconds=180)
        moved_s = silence_s(judge, client, "1", moved)
        print(f"moved: {moved.downtime_s} s by the shadow, {moved_s} s by the judge; {moved}")
    assert killed.downtime_s is not None
    assert abs(killed.downtime_s - seen_s) <= MOST_APART_S
    assert (killed.host, killed.samza_host) == (before["0"], places(sandbox)["0"])
    # By YARN, before the next process has begun.
    assert killed.started_ms is not None
    assert killed.noticed_ms < killed.started_ms
    assert killed.ours is not None
    assert (killed.ours.action, killed.ours.host) == ("restart", before["0"])
    assert moved.downtime_s is not None
    assert abs(moved.downtime_s - moved_s) <= MOST_APART_S
    assert (moved.uuid, moved.destination, moved.samza_host) == (asked.uuid, free, free)
    assert moved.ours is not None
    assert (moved.ours.action, moved.ours.host, moved.same_host) == ("move", free, True)
    summed = reported(log)["summary"]
    assert summed["kinds"]["failure"] >= 1
    assert summed["killed"] == 0
    assert summed["samza"]["failure"]["most_s"] == pytest.approx(killed.downtime_s, abs=0.05)
