"""What a command says where stdout or stderr can't be written, and of a value that is empty."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.place_container import place_container

pytestmark = pytest.mark.unit

MAIN = f"{shlex.quote(sys.executable)} -m samza_dagster.cli.main"
PLACE_CONTAINER = f"{shlex.quote(sys.executable)} -m samza_dagster.cli.place_container"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command", [f"{MAIN} status", f"{MAIN} config show --json", f"{PLACE_CONTAINER} --help"]
)
def test_without_a_stdout_a_command_says_so_in_one_line(command: str) -> None:
    """It ended in a traceback, after it had done what it couldn't tell."""
    done = shell(f"{command} >&-")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "stdout" in line
    assert "closed" in line


def test_without_a_stderr_a_command_does_its_work() -> None:
    """And no traceback goes elsewhere."""
    done = shell(f"{MAIN} config show --json 2>&-")
    assert "settings" in json.loads(done.stdout)


def test_a_full_disk_is_told_on_stderr() -> None:
    """Where the document of the error can't be written either."""
    done = shell(f"{MAIN} config show --json >/dev/full")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("option", ["--job-id", "--job-name", "--bootstrap-servers", "--uuid"])
def test_an_empty_value_is_refused(commands: Any, option: str) -> None:
    """As of a script's variable that isn't set: the environment's job was meant, or id 1."""
    document = commands.json("place", "0", "--to", "ANY_HOST", option, "", code=2)
    assert option in document["asked"]
    assert "empty" in document["asked"]


def test_the_documented_tool_refuses_an_empty_id() -> None:
    """It would have been the job of id 1."""
    given = ["--deployment-id", "d", "--app-name", "orders", "--app-id", ""]
    given += ["--processor-id", "0", "--destination-host", "ANY_HOST"]
    done = CliRunner().invoke(place_container, given)
    assert done.exit_code == 2
    assert "--app-id" in done.stderr
