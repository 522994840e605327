"""From a job's tasks and its group to the next JobModel: what a leader publishes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from samza_dagster.assignment import Grouper, TaskLocality, group_by_partition
from samza_dagster.assignment import group as group_tasks
from samza_dagster.assignment.contract import task_name
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of, standby_task_name
from samza_dagster.standalone.group import GroupView, Member
from samza_dagster.standalone.requests import moving


@dataclass(frozen=True)
class JobPlan:
    """One job: its inputs' partitions (topic → count) and systems, its standbys, and who groups."""

    partition_counts: Mapping[str, int]
    systems: Mapping[str, str]
    replicas: int
    grouper: Grouper

    def model(self, group: GroupView) -> JobModel:
        """The JobModel for the members of a group; its config is empty, as Samza's leader has it.

        A task keeps its changelog partition, and goes where it is pinned or was, as far as the
        grouper has it so. In a version for requests alone all other tasks stay: what somebody empties task by task
        isn't filled again meanwhile.
        Each member has a container, be it without a task. Raises what `assignment.group` does.
        """
        before = group.model.containers if group.model is not None else {}
        tasks = self._tasks(before)
        processors = {member.processor_id: member.location for member in group.members}
        places = {
            member.processor_id: member.location
            for member in group.members
            if not _is_elsewhere(group, member)
        }
        ran = {
            name: TaskLocality(
                processor_id, places.get(processor_id) or group.locality.get(name, ANY_HOST)
            )
            for processor_id, container in before.items()
            for name in container.tasks
        }
        lasting = {
            name: TaskLocality("", location)
            for name, location in group.locality.items()
            if name not in ran
        }
        known = {**lasting, **ran, **_staying(group, ran)}
        for name, pin in group.pins.items():
            known[name] = replace(known.get(name, TaskLocality()), pinned_to=pin.location)
        found = group_tasks(
            tasks,
            known,
            processors,
            self.grouper,
            actives_only={m.processor_id for m in group.members if not m.holds_standbys},
        )
        idle = {each: ContainerModel(processor_id=each, tasks={}) for each in processors}
        actives = sum(task.task_mode is TaskMode.ACTIVE for task in tasks)
        return JobModel(
            config={}, containers={**idle, **found}, max_change_log_stream_partitions=actives
        )

    def _tasks(self, before: Mapping[str, ContainerModel]) -> tuple[TaskModel, ...]:
        known = {
            task.task_name: task.changelog_partition
            for container in before.values()
            for task in container.tasks.values()
            if task.task_mode is TaskMode.ACTIVE
        }
        actives = group_by_partition(
            self.partition_counts, self.systems, changelog_partitions=known
        )
        standbys = (
            task.model_copy(
                update={
                    "task_name": standby_task_name(task.task_name, replica),
                    "task_mode": TaskMode.STANDBY,
                }
            )
            for task in actives
            for replica in range(self.replicas)
        )
        return tuple(sorted((*actives, *standbys), key=task_name))


def _is_elsewhere(group: GroupView, member: Member) -> bool:
    """One of ours has come back to where none of its active tasks ran last: it has left their state behind."""
    work = group.work_of(member.processor_id)
    tasks = work.tasks.values() if work is not None and member.holds_standbys else ()
    actives = (task.task_name for task in tasks if task.task_mode is TaskMode.ACTIVE)
    known = {group.locality.get(name) for name in actives} - {None}
    return bool(known) and member.location not in known


def _staying(group: GroupView, ran: Mapping[str, TaskLocality]) -> dict[str, TaskLocality]:
    """What is held where it ran while others are moved and nobody has come or gone; who is in the way of a copy isn't."""
    moves = dict(moving(group))
    containers = group.model.containers if group.model is not None else {}
    if not moves or containers.keys() != {member.processor_id for member in group.members}:
        return {}
    taken = {(active_task_of(task), pin.location) for task, pin in moves.items()}
    return {
        name: replace(at, pinned_to=at.location_id)
        for name, at in ran.items()
        if name not in moves and (active_task_of(name), at.location_id) not in taken
    }
