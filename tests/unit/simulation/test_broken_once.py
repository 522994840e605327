"""Histories that broke a rule once, by a judge's fault or a coordinator's: each is played under all judges.

A script plays exactly, whatever seeds draw by now. Each is named for what had been overlooked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.script import Script, play

pytestmark = pytest.mark.unit

HISTORIES = Path(__file__).parents[2] / "data" / "histories"
SCRIPTS = sorted(HISTORIES.glob("*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_broke_a_rule_once_breaks_none(path: Path) -> None:
    """All but one were legal, and a judge was wrong; `start-said-again…` had two owners."""
    script = Script.parse(path.read_text(encoding="utf-8"))
    played = play(script.setup, script.moves)
    assert played.violation is None
