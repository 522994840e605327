"""Which Java the sandbox takes, and what it says when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.sandbox.java_check import feature_release, find_java

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


def test_an_old_java_home_falls_back_to_a_fit_one_on_path(tmp_path: Path) -> None:
    """A stale JAVA_HOME doesn't hide the Java that would do."""
    old = _fake_java(tmp_path / "old", "1.8.0_292")
    fit = _fake_java(tmp_path / "fit", "17.0.15")
    assert find_java({"JAVA_HOME": str(old.parent.parent), "PATH": str(fit.parent)}).program == fit


def test_names_the_wrong_version_and_how_to_get_a_right_one(tmp_path: Path) -> None:
    """The message alone is enough to act on."""
    old = _fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingPrerequisite) as caught:
        find_java({"PATH": str(old.parent)})
    assert "11.0.2" in caught.value.seen
    assert str(old) in caught.value.seen
    assert "apt-get install openjdk-17-jdk-headless" in caught.value.fix
    assert caught.value.exit_code == 2


def test_says_that_there_is_none(tmp_path: Path) -> None:
    """Neither place has one: both are named."""
    with pytest.raises(MissingPrerequisite) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)})
    assert "JAVA_HOME" in caught.value.seen
    assert "PATH" in caught.value.seen
