"""Assignment of tasks to processors: pure functions, one contract for every grouper."""

from samza_dagster.assignment.by_locality import by_locality
from samza_dagster.assignment.contract import Grouper, TaskLocality
from samza_dagster.assignment.grouping import as_before, group, grouper_of, unplaced
from samza_dagster.assignment.samza_groupers import by_container_count, by_container_ids
from samza_dagster.assignment.standbys import (
    replicas_from_config,
    standby_container,
    with_standbys,
)
from samza_dagster.assignment.tasks import group_by_partition

__all__ = [
    "Grouper",
    "TaskLocality",
    "as_before",
    "by_container_count",
    "by_container_ids",
    "by_locality",
    "group",
    "group_by_partition",
    "grouper_of",
    "replicas_from_config",
    "standby_container",
    "unplaced",
    "with_standbys",
]
