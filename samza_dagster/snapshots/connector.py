"""Where Spark's Kafka connector is: four jars beside those that pyspark brings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from samza_dagster import directories
from samza_dagster.errors import MissingPrerequisite

JARS_VARIABLE = "SAMZA_DAGSTER_SPARK_JARS"

# The connector is of pyspark's own release; it brings the Kafka client that it was built with.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
PACKAGE = CONNECTOR[0]
# What the package depends on and pyspark has already. A local repository that holds only
# the description of one of these makes the resolver fail.
EXCLUDED_PACKAGES = (
    "org.slf4j:slf4j-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "com.google.code.findbugs:jsr305",
)


def artifacts_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where a link leads to: the JVM compares paths as text before it takes a class archive."""
    return directories.artifacts_directory(environment).resolve()


def connector_jars(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The connector's jars on this machine, absolute; empty when there are none.

    `SAMZA_DAGSTER_SPARK_JARS` (jars, or directories of jars, separated like `PATH`) is
    taken as it is. Otherwise the pinned four below `artifacts/jars/<group>/`, all or none.
    Raises `MissingPrerequisite` when the variable names something that isn't there.
    """
    environment = os.environ if environment is None else environment
    given = environment.get(JARS_VARIABLE, "")
    if given:
        return _named(given)
    root = artifacts_directory(environment) / "jars"
    pinned = tuple(root / _relative_path(coordinates) for coordinates in CONNECTOR)
    return pinned if all(path.is_file() for path in pinned) else ()


def _relative_path(coordinates: str) -> Path:
    group, name, version = coordinates.split(":")
    return Path(group) / f"{name}-{version}.jar"


def _named(given: str) -> tuple[Path, ...]:
    jars: list[Path] = []
    for part in given.split(os.pathsep):
        path = Path(part).expanduser().absolute()
        found = sorted(path.rglob("*.jar")) if path.is_dir() else [path]
        if not found or not all(jar.is_file() for jar in found):
            raise MissingPrerequisite(
                f"Spark's Kafka connector, from {JARS_VARIABLE}",
                seen=f"no jar at {path}",
                fix=f"the jars {', '.join(CONNECTOR)}, or {JARS_VARIABLE} unset",
            )
        jars.extend(found)
    return tuple(jars)
