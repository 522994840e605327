"""Which processor runs which task: pure functions, with Samza's own results."""

from samza_dagster.assignment.containers import group_by_container_count
from samza_dagster.assignment.standbys import (
    replicas_from_config,
    standby_container,
    with_standbys,
)
from samza_dagster.assignment.tasks import group_by_partition

__all__ = [
    "group_by_container_count",
    "group_by_partition",
    "replicas_from_config",
    "standby_container",
    "with_standbys",
]
