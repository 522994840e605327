"""The commands as processes: exit codes, one JSON document, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

from samza_dagster.model import StatusCode
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def test_place_to_its_outcome(kafka_job: Any) -> None:
    """The coordinator answers while the command waits; FAILED is exit 1."""
    asked = str(uuid.uuid4())
    process = kafka_job.start("place", "0", "--to", "nm2", "--uuid", asked, "--json")
    line = process.stderr.readline()
    assert asked in line
    kafka_job.take(asked)
    kafka_job.respond(asked, StatusCode.IN_PROGRESS, "Preferred Resources requested")
    kafka_job.respond(asked, StatusCode.FAILED, "request for resources expired")
    stdout, _ = process.communicate(timeout=30 * PACE)
    assert process.returncode == 1
    document = json.loads(stdout)
    assert [r["statusCode"] for r in document["responses"]] == ["IN_PROGRESS", "FAILED"]
    code, status = kafka_job.cli("status", asked)
    assert (code, status["response"]["statusCode"]) == (0, "FAILED")


def test_ctrl_c_leaves_the_request_and_exits_130(kafka_job: Any) -> None:
    """Nothing is half done: the record stands, whole, and its UUID was told."""
    asked = str(uuid.uuid4())
    process = kafka_job.start("place", "0", "--to", "nm2", "--uuid", asked)
    assert asked in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=15 * PACE)
    assert process.returncode == 130
    assert f"samza-dagster status {asked}" in stderr
    code, status = kafka_job.cli("status", asked)
    assert (code, status["request"]["statusCode"]) == (0, "CREATED")
    kafka_job.take(asked)


def test_refused_commands_are_exit_2_and_write_nothing(kafka_job: Any) -> None:
    """By the end offset that an outsider reads."""
    end = kafka_job.end()
    for arguments in (
        ("place", "7", "--to", "nm2"),
        ("place", "0", "--to", "nm3"),
        ("place", "0", "--to", "nm2", "--deployment-id", "old"),
        ("place", "0", "--to", "nm2", "--request-expiry", "0"),
        ("place", "0"),
    ):
        code, document = kafka_job.cli(*arguments)
        assert code == 2, arguments
        assert document["asked"]
    assert kafka_job.cli("explain", "0", "--to", "nm3")[0] == 0
    assert kafka_job.end() == end


def test_no_broker_is_exit_4_within_ten_seconds() -> None:
    """Beside the start of Python; what librdkafka logs reaches neither stdout nor stderr."""
    command = [sys.executable, "-m", "samza_dagster.cli.main", "status", "--json"]
    began = time.monotonic()
    subprocess.run([*command, "--config", "/"], capture_output=True, timeout=30 * PACE, check=False)
    start_s = time.monotonic() - began
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--bootstrap-servers", "127.0.0.1:1", "--job-name", "j"],
        capture_output=True,
        text=True,
        timeout=30 * PACE,
        check=False,
    )
    assert time.monotonic() - began < 10 + start_s
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"] == "Unreachable"
    assert done.stderr == ""


def test_the_documented_tool_prints_its_line(kafka_job: Any) -> None:
    """`place-container`, with `--app.id = 1`, as the design document has it."""
    end = kafka_job.end()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "samza_dagster.cli.place_container"),
            *("--deployment-id", "run-1", "--app-name", kafka_job.name, "--app.id", "=", "1"),
            *("--processor-id", "0", "--request-expiry", "10"),
            *("--destination-host", "nm2", "--bootstrap-servers", kafka_job.bootstrap_servers),
        ],
        capture_output=True,
        text=True,
        timeout=30 * PACE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    prefix = "Request received query the status using: "
    assert done.stdout.startswith(prefix)
    assert done.stdout.count("\n") == 1
    asked = done.stdout.removeprefix(prefix).strip()
    _, value = kafka_job.raw(end)
    assert json.loads(value or b"{}")["uuid"] == asked
    kafka_job.take(asked)
