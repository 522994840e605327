"""Which Java the sandbox takes, and what it says when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.sandbox import java_check
from samza_dagster.sandbox.java_check import feature_release, find_java
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases

pytestmark = pytest.mark.unit


def _fake_java(directory: Path, version: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("version", "release"),
    [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21), ("25-ea", 25), ("unknown", 0)],
)
def test_reads_old_and_new_version_numbers(version: str, release: int) -> None:
    """`1.8` means 8, since Java 9 the first number counts."""
    assert feature_release(version) == release


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """Who sets JAVA_HOME means it."""
    chosen = _fake_java(tmp_path / "home", "17.0.1")
    other = _fake_java(tmp_path / "other", "21.0.1")
    java = find_java({"JAVA_HOME": str(chosen.parent.parent), "PATH": str(other.parent)})
    assert java.program == chosen
    assert java.found_by.startswith("JAVA_HOME")


def test_names_the_wrong_version_and_how_to_get_a_right_one(tmp_path: Path) -> None:
    """The message alone is enough to act on: each place that was looked at is named."""
    old = _fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingPrerequisite) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old.parent)})
    assert "JAVA_HOME" in caught.value.seen
    assert f"Java 11.0.2 at {old}" in caught.value.seen
    assert "apt-get install openjdk-17-jdk-headless" in caught.value.fix
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("version", "fits"), [("22.0.2", True), ("23", False), ("25.0.1", False)])
def test_a_java_on_which_containers_cant_start_is_passed_over(
    tmp_path: Path, version: str, fits: bool
) -> None:
    """Samza's Kafka client calls `Subject.getSubject`, which throws from 23 on."""
    new = _fake_java(tmp_path / "new", version)
    if fits:
        assert find_java({"PATH": str(new.parent)}).program == new
        return
    with pytest.raises(MissingPrerequisite) as caught:
        find_java({"PATH": str(new.parent)})
    assert caught.value.asked == "a JDK of release 17 to 22"
    assert f"Java {version}" in caught.value.seen
    assert "Subject.getSubject throws" in caught.value.seen
    old = _fake_java(tmp_path / "old", "17.0.15")
    assert find_java({"JAVA_HOME": str(new.parent.parent), "PATH": str(old.parent)}).program == old


def test_another_system_than_linux_is_named_before_anything_is_fetched_or_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `make` and by `sandbox up`: not by a missing /proc in the middle of it."""
    monkeypatch.setenv("SAMZA_DAGSTER_HOME", str(tmp_path))
    monkeypatch.setattr(java_check.sys, "platform", "darwin")
    assert java_check.main() == 2
    assert "Linux" in capsys.readouterr().err
    with pytest.raises(MissingPrerequisite, match="platform darwin"):
        Sandbox("one").up(Options(), Phases(print))
    assert list(tmp_path.iterdir()) == []
