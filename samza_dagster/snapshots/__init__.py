"""Snapshots of a fleet of jobs computed by PySpark: locality, lag, readiness, what a host's death would cost."""

from samza_dagster.snapshots.fleet import take_fleet
from samza_dagster.snapshots.session import spark_session
from samza_dagster.snapshots.snapshot import FleetSnapshot
from samza_dagster.snapshots.tables import Tables

__all__ = ["FleetSnapshot", "Tables", "spark_session", "take_fleet"]
