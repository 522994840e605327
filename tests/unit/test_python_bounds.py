"""Which releases of Python `make` goes on with: those that pyproject allows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("minor", range(9, 17))
def test_make_refuses_a_python_that_pyproject_refuses_before_it_installs_anything(
    minor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one that is too new all requirements were installed first."""
    found = re.search(r"-c '(import sys; sys\.exit\(.*?\))' 2>", (ROOT / "Makefile").read_text())
    assert found is not None
    allowed = SpecifierSet(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    )
    monkeypatch.setattr(sys, "version_info", (3, minor, 1, "final", 0))
    with pytest.raises(SystemExit) as ended:
        exec(found[1])
    assert (not ended.value.code) == (f"3.{minor}.1" in allowed)


def test_a_python_that_isnt_there_is_named_without_the_shells_words() -> None:
    """They stood in the middle of the sentence."""
    make = ("make", "-s", "-B", "PYTHON=/nowhere/python", "setup")
    ended = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "and '/nowhere/python' is not there. Install it" in ended.stdout
    assert ended.returncode == 2


def test_packages_that_cant_be_installed_are_told_with_what_to_look_at(tmp_path: Path) -> None:
    """Below what pip says, which speaks of versions where the network is away."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    make = ("make", "-s", f"VENV={tmp_path}", f"PYTHON={sys.executable}", "setup")
    ended = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "HTTPS_PROXY" in ended.stdout
