"""What a running job leaves on record, read by outsiders: a plain consumer, another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.coordinator.conftest import restart
from tests.rig.job import ROOT, Job
from tests.rig.pace import PACE
from tests.rig.topic_records import records_of

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("audited")


def records(job: Job) -> list[dict[str, Any]]:
    """The audit topic's committed records by a consumer that knows nothing of ours."""
    found = records_of(job.connection, f"__samza_dagster_audit_{job.name}_1")
    return [json.loads(value or b"") for _, value in found]


def verify(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The command as a process."""
    done = subprocess.run(
        [sys.executable, "-m", "samza_dagster.cli.main", "verify", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 * PACE,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def of(job: Job) -> tuple[str, ...]:
    return ("--config", str(job.directory / "job.properties"))


def test_a_move_is_on_record_and_verified(job: Job) -> None:
    """Every start and end; the new start names the old incarnation, which was seen dead."""
    before = job.processors()["0"]
    first = [r for r in records(job) if r["kind"] == "start"]
    assert {r["processor_id"] for r in first} == {"0", "0-0", "1", "1-0"}
    assert all(r["predecessor"] is None for r in first)
    restart(job, "0")
    after = job.wait_until_running()["0"]
    end, start = records(job)[-2:]
    assert (end["kind"], end["how"], end["execution_id"]) == ("end", "dead", before["execution_id"])
    assert (start["kind"], start["execution_id"]) == ("start", after["execution_id"])
    assert start["predecessor"]["execution_id"] == before["execution_id"]
    assert start["others"] == [["0-0", job.processors()["0-0"]["host"]]]
    code, verdict = verify(*of(job))
    assert (code, verdict["ok"], verdict["complete"]) == (0, True, True)
    assert verdict["starts"] == {"0": 2, "0-0": 1, "1": 1, "1-0": 1}
    assert verdict["predecessors"] == {"first": 4, "dead": 1}
    assert verdict["head"] == verdict["state_head"]


def test_an_exported_history_is_judged_without_the_cluster(job: Job, tmp_path: Path) -> None:
    """And a word changed in it is found."""
    file = tmp_path / "history.jsonl"
    code, verdict = verify(*of(job), "--export", str(file))
    assert code == 0
    assert verify("--from-file", str(file), "--head", verdict["head"])[1]["ok"] is True
    text = file.read_text()
    file.write_text(text.replace('"how":"dead"', '"how":"lease"', 1))
    code, found = verify("--from-file", str(file))
    assert (code, found["violation"]["rule"]) == (1, "digest")
