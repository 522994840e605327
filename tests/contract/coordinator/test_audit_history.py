"""What a running job leaves on record, read by outsiders: a plain consumer, another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.rig.job import ROOT, Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("audited")


def records(job: Job) -> list[dict[str, Any]]:
    """The audit topic's committed records by a consumer that knows nothing of ours."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(f"__samza_dagster_audit_{job.name}_1", 0, 0)])
    found: list[dict[str, Any]] = []
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(json.loads(message.value()))
    finally:
        consumer.close()
    return found


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


def restart(job: Job, processor_id: str) -> None:
    client = job.client()
    try:
        request = client.place(processor_id, "LAST_SEEN")
        assert client.wait(request.uuid, timeout_s=30 * PACE).status_code == "SUCCEEDED"
    finally:
        client.close()


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


def test_the_chain_goes_on_under_the_next_leader(job: Job) -> None:
    """The coordinator is killed, then a container: one history, without a gap."""
    job.kill_coordinator()
    job.start_coordinator()
    before = job.wait_until_running()["1"]
    os.kill(before["pid"], signal.SIGKILL)
    until(
        "its successor runs",
        lambda: job.wait_until_running()["1"]["execution_id"] != before["execution_id"],
    )
    death = next(r for r in records(job) if r["kind"] == "end" and r["processor_id"] == "1")
    assert (death["execution_id"], death["how"]) == (before["execution_id"], "dead")
    code, verdict = verify(*of(job))
    assert (code, verdict["violation"]) == (0, None)
    assert verdict["records"] == len(records(job))


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


def test_no_broker_is_exit_4() -> None:
    """As for every command."""
    code, document = verify("--bootstrap-servers", "127.0.0.1:1", "--job-name", "j")
    assert (code, document["error"]) == (4, "Unreachable")
