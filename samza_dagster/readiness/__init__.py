"""How far a replica is from being ready: pure rules."""

from samza_dagster.readiness.lag import records_behind

__all__ = ["records_behind"]
