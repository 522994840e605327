"""The class that warms a parked JVM: beside the container's own, and never in its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.sandbox.java_check import Java
from samza_dagster.sandbox.launch import MAIN_CLASS, launch_template
from samza_dagster.sandbox.warm_start import MAIN_CLASS as WARM_START
from samza_dagster.sandbox.warm_start import warm_start_jar

pytestmark = pytest.mark.unit
JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))


def test_it_runs_the_main_class_of_samza() -> None:
    """Its jar comes last, so that Samza's class path is as it was."""
    java = Java(Path("/jdk/bin/java"), "17.0.15", "PATH")
    plain = launch_template(java, JARS).command
    warm = launch_template(java, JARS, warm_start=Path("/jars/w.jar")).command
    assert plain[-2:] == ("/jars/a.jar:/jars/b.jar", MAIN_CLASS)
    assert warm[-3:] == ("/jars/a.jar:/jars/b.jar:/jars/w.jar", WARM_START, MAIN_CLASS)
    assert warm[:-3] == plain[:-2]


def test_a_java_without_a_compiler_starts_containers_cold(tmp_path: Path) -> None:
    """A JRE has no `javac`: no reason not to start."""
    java = Java(tmp_path / "bin" / "java", "17.0.15", "PATH")
    assert warm_start_jar(java, JARS, tmp_path) is None


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Half a jar would be taken for a whole one the next time."""
    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    java = Java(compiler.with_name("java"), "17.0.15", "PATH")
    assert warm_start_jar(java, JARS, tmp_path) is None
    assert not list(tmp_path.rglob("*.jar"))
