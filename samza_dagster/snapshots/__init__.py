"""Snapshots of jobs computed by PySpark: locality of containers and tasks, changelog lag."""

from samza_dagster.snapshots.connector import connector_jars
from samza_dagster.snapshots.session import spark_session
from samza_dagster.snapshots.snapshot import Snapshot, compute_snapshot

__all__ = ["Snapshot", "compute_snapshot", "connector_jars", "spark_session"]
