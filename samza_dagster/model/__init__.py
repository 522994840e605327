"""Samza's models of a job: immutable, with JSON exactly as Samza writes it."""

from samza_dagster.model.job_model import (
    ContainerModel,
    JobModel,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
)
from samza_dagster.model.locality import LocalityModel, ProcessorLocality, task_hosts
from samza_dagster.model.placement_messages import (
    PlacementRequest,
    PlacementResponse,
    ResponseDetails,
    StatusCode,
)

__all__ = [
    "ContainerModel",
    "JobModel",
    "LocalityModel",
    "PlacementRequest",
    "PlacementResponse",
    "ProcessorLocality",
    "ResponseDetails",
    "StatusCode",
    "SystemStreamPartition",
    "TaskMode",
    "TaskModel",
    "task_hosts",
]
