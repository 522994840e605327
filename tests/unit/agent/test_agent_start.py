"""Why an agent doesn't start, as the last line of what it prints says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samza_dagster.agent import main as agent_main

pytestmark = pytest.mark.unit

HOST = ("--host", "h", "--memory-mb", "1", "--cores", "1")
TOLD = ("--coordinator-url-file", "u", "--token-file", "t")


def refused(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the last line on standard error."""
    done = subprocess.run(
        [sys.executable, "-I", agent_main.__file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (TOLD[2:], "needed to run: --coordinator-url-file"),
        (TOLD[:2], "needed to run: --token-file"),
        ((*TOLD, "@missing"), "missing"),
    ],
)
def test_bad_usage_is_named(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    """Exit 2, before anything is made."""
    code, line = refused("--directory", str(tmp_path / "d"), *HOST, *arguments)
    assert code == 2
    assert why in line
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("option", ["--directory", "--state-dir"])
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, option: str) -> None:
    """Exit 2; here a file is in the way."""
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "below"
    code, line = refused("--directory", str(tmp_path / "d"), *HOST, *TOLD, option, str(place))
    assert (code, line) == (
        2,
        f"agent: error: {place} can't be written: Not a directory",
    )


def test_arguments_are_read_from_a_file(tmp_path: Path) -> None:
    """One a line, with spaces and signs as they are."""
    file = tmp_path / "arguments"
    file.write_text(f"--directory\n{tmp_path / 'a $HOME'}\n--stop-all\n")
    done = subprocess.run(
        [sys.executable, "-I", agent_main.__file__, f"@{file}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{"stopped": [], "alive": []}\n'
