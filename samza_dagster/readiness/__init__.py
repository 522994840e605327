"""How far a replica is from being ready: pure rules."""

from samza_dagster.readiness.choice import Candidate, soonest_ready
from samza_dagster.readiness.lag import records_behind

__all__ = ["Candidate", "records_behind", "soonest_ready"]
