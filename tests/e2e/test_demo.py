"""The demo as a user runs it: one command, real parts, a verdict that can be checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.directories import artifacts_directory
from tests.integration.sandbox.conftest import processes_of
from tests.rig.pace import PACE

DEADLINE_S = 350 * PACE


STAGES = (*["IN_PROGRESS"] * 4, "SUCCEEDED")
ON_AN_AM = (*["IN_PROGRESS"] * 2, "SUCCEEDED")


def _demo(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The summary of a demo that ended with 0, of which no process is left."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "artifacts").symlink_to(artifacts_directory(), target_is_directory=True)
    command = [sys.executable, "-m", "samza_dagster.cli.main"]
    environment = {
        **os.environ,
        "SAMZA_DAGSTER_HOME": str(home),
        "SAMZA_DAGSTER_SENSOR_INTERVAL_S": str(round(5 * PACE)),
    }
    try:
        done = subprocess.run(
            [*command, "demo", "--once", *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:  # of a demo that was cut off, by its own record
        subprocess.run([*command, "sandbox", "down", "--all"], env=environment, check=True)
    assert done.stdout, done.stderr[-3000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, (summary, done.stderr[-3000:])
    assert processes_of(home) == []
    return summary


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        pytest.param((), [("0", s) for s in STAGES], marks=pytest.mark.e2e),
        pytest.param(
            ("--yarn",),
            [(processor, s) for processor in ("0-0", "0") for s in ON_AN_AM],
            marks=[pytest.mark.yarn, pytest.mark.longyarn],
        ),
        pytest.param(
            ("--yarn", "--coordinator", "ours"),
            [("0", s) for s in STAGES],
            marks=[pytest.mark.yarn, pytest.mark.longyarn],
        ),
    ],
)
def test_the_demo_moves_a_stateful_container_and_loses_nothing(
    tmp_path: Path, options: tuple[str, ...], answers: list[tuple[str, str]]
) -> None:
    """Exit 0, a summary whose every promise is re-checked here, and no process left."""
    summary = _demo(tmp_path, *options)
    before, after = summary["locality_before"], summary["locality_after"]
    assert summary["moved"] is True
    assert after["0"] == before["0-0"]
    assert after["0-0"] not in (before["0"], after["0"])
    assert {p: h for p, h in after.items() if p[0] == "1"} == {
        p: h for p, h in before.items() if p[0] == "1"
    }
    assert summary["missing"] == 0
    assert 0 < summary["downtime_s"] < 60 * PACE
    assert 0 < summary["restored"] <= 2 * summary["produced_in_gap"] < 20_000
    statuses = [(r["processor_id"], r["status"]) for r in summary["responses"]]
    assert statuses == answers
    assert len({r["uuid"] for r in summary["responses"]}) == len({p for p, _ in answers})
    assert {row["mode"] for row in summary["lag"]} == {"Active", "Standby"}
    assert len(summary["lag"]) == 8
    assert summary["assets"] is True


@pytest.mark.e2e
def test_a_killed_standalone_processors_tasks_go_on_where_their_standbys_are(
    tmp_path: Path,
) -> None:
    """Within its session's time-out and 6 s, twice that allowed here; nothing is lost, nobody owned a task twice, the rest went on."""
    summary = _demo(tmp_path, "--standalone", "--state-mb", "1")
    before, after = summary["locality_before"], summary["locality_after"]
    lost = before["Partition 0"]
    actives = {task for task in before if task.startswith("Partition ")}
    assert len(actives) == 4
    assert {task: after[task] for task in actives} == {
        task: before[f"Standby-{task}-0" if before[task] == lost else task] for task in actives
    }
    assert lost not in after.values()
    assert (summary["missing"], summary["unexplained"], summary["two_owners"]) == (0, 0, 0)
    assert all(
        summary["owners"][task.rpartition(" ")[2]] >= 2 for task in actives if before[task] == lost
    )
    assert summary["agreed_s"] < summary["took_over_s"] < (summary["session_s"] + 12) * PACE
    assert 0 < summary["downtime_s"] < (summary["session_s"] + 12) * PACE
