"""Where the class archive for Spark's JVM lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samza_dagster.snapshots import class_archive
from samza_dagster.snapshots.class_archive import archive_path, dump

pytestmark = pytest.mark.unit


def test_the_name_is_of_what_the_jvm_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark of another time is another archive, the same one the same."""
    environment = {**os.environ, "SAMZA_DAGSTER_HOME": str(tmp_path)}
    jar = tmp_path / "jars" / "spark-core_2.13.jar"
    jar.parent.mkdir()
    jar.touch()
    monkeypatch.setattr(class_archive, "pyspark_home", lambda: tmp_path)
    first = archive_path(environment)
    assert first.parent == tmp_path / "artifacts" / "archives"
    assert archive_path(environment) == first
    os.utime(jar, (1, 1))
    assert archive_path(environment) != first


def test_an_archive_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """No JVM is started for it."""
    environment = {**os.environ, "SAMZA_DAGSTER_HOME": str(tmp_path)}
    path = archive_path(environment)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"kept")
    assert dump(environment).read_bytes() == b"kept"
