"""The wrong clocks of a chaos run's hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from tests.chaos.clocks import HostClocks
from tests.rig import faketime

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


def test_a_library_lacks_a_function_by_another_name_of_it_and_no_other() -> None:
    """Names share their ends in the table of symbols; what the library itself looks up stays."""
    table, texts = b"\0clock_nanosleep\0sleep\0", b"...\0clock_nanosleep\0"
    made = faketime.without(table + texts, "clock_nanosleep")
    assert made == b"\0-lock_nanosleep\0sleep\0" + texts


def test_without_what_fetches_the_library_a_run_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No compiler is among it."""
    monkeypatch.setattr(faketime, "artifacts_directory", lambda: tmp_path)
    monkeypatch.setattr(faketime.shutil, "which", lambda _: None)
    with pytest.raises(MissingPrerequisite, match="fix: apt-get and dpkg, with Debian's package"):
        HostClocks(tmp_path / "clocks", ["a"], 100.0).environment("a")
