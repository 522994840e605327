"""Which releases of Python `make` goes on with: those that pyproject allows."""

from __future__ import annotations

import re
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
