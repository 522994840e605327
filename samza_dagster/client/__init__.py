"""The client that operators, schedules and sensors call; it works on metadata alone."""

from samza_dagster.client.checkpoints import ProcessorProgress, TaskProgress
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.plan import Plan
from samza_dagster.client.requests import Request
from samza_dagster.client.verdicts import HostVerdict
from samza_dagster.client.views import (
    ActionView,
    FailoverView,
    HostView,
    InputLag,
    JobView,
    LeaderView,
    Look,
    OrphanView,
    ProcessorView,
    ReplicaLag,
)

__all__ = [
    "ActionView",
    "FailoverView",
    "HostVerdict",
    "HostView",
    "InputLag",
    "JobView",
    "LeaderView",
    "Look",
    "OrphanView",
    "PlacementClient",
    "Plan",
    "ProcessorProgress",
    "ProcessorView",
    "ReplicaLag",
    "Request",
    "TaskProgress",
]
