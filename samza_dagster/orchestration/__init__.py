"""The Dagster side: component, resource, jobs, sensors and assets of a Samza job."""

from samza_dagster.orchestration.component import SamzaJobComponent
from samza_dagster.orchestration.history import placement_responses_sensor
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource

__all__ = [
    "PlacementPolicies",
    "SamzaClientResource",
    "SamzaJobComponent",
    "placement_jobs",
    "placement_responses_sensor",
]
