"""The wrong clocks of a chaos run's hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.clocks import HostClocks

pytestmark = pytest.mark.unit


def _ahead(directory: Path) -> dict[str, str]:
    return {file.stem: file.read_text() for file in directory.glob("*.clock")}


def test_hosts_are_ahead_and_behind_by_turns_and_are_so_again_after_a_fault(tmp_path: Path) -> None:
    """A fault sets one host's clock further, as libfaketime reads it."""
    clocks = HostClocks(tmp_path, ["a", "b"], 100.0)
    wrong = {"a": "+100.0s\n", "b": "-100.0s\n"}
    assert _ahead(tmp_path) == wrong
    clocks.set("b", "set ahead host")
    assert _ahead(tmp_path) == {**wrong, "b": "+0.0s\n"}
    clocks.set("b", "set back host")
    assert _ahead(tmp_path) == {**wrong, "b": "-200.0s\n"}
    clocks.set_right("b")
    assert _ahead(tmp_path) == wrong


def test_without_a_skew_nothing_stands_before_the_clock(tmp_path: Path) -> None:
    """And the library isn't asked for."""
    assert HostClocks(tmp_path, ["a"], 0.0).environment("a") == {}
