"""Where Spark's Kafka connector is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.snapshots.connector import CONNECTOR, connector_jars

pytestmark = pytest.mark.unit


def put(home: Path, coordinates: str) -> Path:
    group, name, version = coordinates.split(":")
    jar = home / "artifacts" / "jars" / group / f"{name}-{version}.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.touch()
    return jar


def test_the_pinned_jars_of_the_artifact_directory(tmp_path: Path) -> None:
    """All four, in order; jars of other sets lie beside them and are left alone."""
    jars = tuple(put(tmp_path, coordinates) for coordinates in CONNECTOR)
    put(tmp_path, "org.apache.kafka:kafka-clients:4.1.0")
    assert connector_jars({"SAMZA_DAGSTER_HOME": str(tmp_path)}) == jars


@pytest.mark.parametrize("missing", CONNECTOR)
def test_an_incomplete_set_counts_as_none(tmp_path: Path, missing: str) -> None:
    """Three of four would fail inside Spark, long after the start."""
    for coordinates in CONNECTOR:
        if coordinates != missing:
            put(tmp_path, coordinates)
    assert connector_jars({"SAMZA_DAGSTER_HOME": str(tmp_path)}) == ()


def test_the_variable_names_jars_and_directories_and_wins(tmp_path: Path) -> None:
    """Directories are searched to their depth, in a stable order."""
    for coordinates in CONNECTOR:
        put(tmp_path / "home", coordinates)
    named = [tmp_path / "d" / "b.jar", tmp_path / "d" / "sub" / "a.jar", tmp_path / "c.jar"]
    for jar in named:
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()
    environment = {
        "SAMZA_DAGSTER_HOME": str(tmp_path / "home"),
        "SAMZA_DAGSTER_SPARK_JARS": os.pathsep.join([str(tmp_path / "d"), str(tmp_path / "c.jar")]),
    }
    assert connector_jars(environment) == tuple(named)


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    """What a person set is never passed over in silence."""
    environment = {"SAMZA_DAGSTER_SPARK_JARS": str(tmp_path / "absent")}
    with pytest.raises(MissingPrerequisite, match="absent"):
        connector_jars(environment)
