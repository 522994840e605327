"""Histories in which nothing is wrong, and a judge said so: each is played under all of them.

A script plays exactly, whatever seeds draw by now. Each is named for what the judge missed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.simulation.script import Script, play

pytestmark = pytest.mark.unit

HISTORIES = Path(__file__).parents[2] / "data" / "histories"
SCRIPTS = sorted(HISTORIES.glob("*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_no_judge_finds_fault_where_there_is_none(path: Path) -> None:
    """Each was told to break a rule once."""
    script = Script.parse(path.read_text(encoding="utf-8"))
    played = play(script.setup, script.moves)
    assert played.violation is None
