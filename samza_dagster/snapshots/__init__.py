"""Snapshots of a fleet of jobs computed by PySpark: locality, lag, readiness, what a host's death would cost."""

from samza_dagster.snapshots.fleet import FleetSnapshot, take_fleet
from samza_dagster.snapshots.tables import Tables
from samza_dagster.snapshots.workers import Workers, spark_session

__all__ = ["FleetSnapshot", "Tables", "Workers", "spark_session", "take_fleet"]
