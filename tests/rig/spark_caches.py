"""What a machine needs once before Spark starts as quickly as it does later: jars, class archive."""

from __future__ import annotations

from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.snapshots.class_archive import dump
from samza_dagster.snapshots.connector import connector_jars

if __name__ == "__main__":
    jar_paths("spark-kafka")
    print(dump(connector_jars()))
