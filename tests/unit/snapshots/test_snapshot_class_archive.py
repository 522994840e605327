"""Where the class archive for Spark's JVM lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.snapshots.class_archive import archive_path, dump

pytestmark = pytest.mark.unit


def test_the_name_is_of_what_the_jvm_checks(tmp_path: Path) -> None:
    """A jar of another time is another archive, the same jar the same one."""
    environment = {**os.environ, "SAMZA_DAGSTER_HOME": str(tmp_path)}
    jar = tmp_path / "a.jar"
    jar.touch()
    first = archive_path([jar], environment)
    assert first.parent == tmp_path / "artifacts" / "archives"
    assert archive_path([jar], environment) == first
    os.utime(jar, (1, 1))
    assert archive_path([jar], environment) != first


def test_an_archive_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """No JVM is started for it."""
    environment = {**os.environ, "SAMZA_DAGSTER_HOME": str(tmp_path)}
    jar = tmp_path / "a.jar"
    jar.touch()
    path = archive_path([jar], environment)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"kept")
    assert dump([jar], environment).read_bytes() == b"kept"


def test_without_jars_by_path_there_is_no_archive() -> None:
    """A class path that Spark resolves anew each time would never fit."""
    with pytest.raises(MissingPrerequisite, match="SAMZA_DAGSTER_SPARK_JARS"):
        dump([])
