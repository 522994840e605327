"""The commands as processes: exit codes, one JSON document, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_is_not_utf_8_is_told_all_the_same(kafka_job: Any, encoding: str) -> None:
    """Its plan has an arrow, which ended in a traceback."""
    flags = ["--bootstrap-servers", kafka_job.bootstrap_servers, "--job-name", kafka_job.name]
    done = subprocess.run(
        [sys.executable, "-m", "samza_dagster.cli.main", "explain", "0", *flags],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "nm1" in done.stdout
