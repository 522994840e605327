"""From a job's tasks and its group to the next JobModel: what a leader publishes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from samza_dagster.assignment import Grouper, TaskLocality, by_container_count, group_by_partition
from samza_dagster.assignment import group as group_tasks
from samza_dagster.assignment.comparison import actives_of, input_counts, inputs_of
from samza_dagster.assignment.contract import in_order, task_name
from samza_dagster.assignment.former import former_processors
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of, standby_task_name
from samza_dagster.standalone.group import GroupView


@dataclass(frozen=True)
class JobPlan:
    """A job: inputs' partitions (topic → count) and systems, standbys, grouper, whether it has stores."""

    partition_counts: Mapping[str, int]
    systems: Mapping[str, str]
    replicas: int
    grouper: Grouper
    is_stateful: bool = True

    def model(self, group: GroupView, staying: Set[str] = frozenset()) -> JobModel:
        """Return the JobModel for the members of a group.

        Its config is empty, as that of Samza's leader.

        A task keeps its changelog partition, and goes where it is pinned, was, or was formerly, as
        far as the grouper has it so. Tasks that are `staying` keep their processor. Each member has
        a container, be it without a task. Raises what `assignment.group` does.
        """
        model = group.model or group.before
        before = model.containers if model is not None else {}
        tasks = self._tasks(model)
        processors = {member.processor_id: member.location for member in group.members}
        known = {name: TaskLocality("", location) for name, location in group.locality.items()}
        former = former_processors(group.history)
        for processor_id, container in before.items():
            for name in container.tasks:
                stays = name in staying
                at = _location(group, processor_id, name, stays=stays)
                own = processor_id if at != ANY_HOST or name == active_task_of(name) else ""
                known[name] = TaskLocality(own, at, stays=stays, former=former(name, processor_id))
        for name, pin in group.pins.items():
            known[name] = replace(known.get(name, TaskLocality()), pinned_to=pin.location)
        actives = sum(task.task_mode is TaskMode.ACTIVE for task in tasks)
        served = processors
        if self.grouper is by_container_count and not self.replicas:  # which leaves none empty
            served = {each: processors[each] for each in in_order(processors)[:actives]}
        found = group_tasks(
            tasks,
            known,
            served,
            self.grouper,
            actives_only={m.processor_id for m in group.members if not m.holds_standbys},
        )
        idle = {each: ContainerModel(processor_id=each, tasks={}) for each in processors}
        return JobModel(
            config={}, containers={**idle, **found}, max_change_log_stream_partitions=actives
        )

    def refused(self, group: GroupView) -> str:
        """Return why new partitions of inputs have no task.

        Empty where they have, or there are none.
        """
        had = input_counts(group.model)
        grown = {t: n for t, n in sorted(self.partition_counts.items()) if n > had.get(t, n)}
        if not self.is_stateful:
            grown = {topic: n for topic, n in grown.items() if n % had[topic]}
        if not grown:
            return ""
        seen = ", ".join(
            f"{topic} has {n} partitions and had {had[topic]}" for topic, n in grown.items()
        )
        if self.is_stateful:
            fix = "its keys would miss their state: start it under another job.id, which builds that anew"
            return f"a job with stores keeps its tasks; seen: {seen}; fix: {fix}"
        return f"inputs grow by a multiple; seen: {seen}; fix: a multiple, or another job.id"

    def _tasks(self, before: JobModel | None) -> tuple[TaskModel, ...]:
        actives = actives_of(before)
        had, counts = input_counts(before), dict(self.partition_counts)
        for topic in had.keys() & counts.keys():
            if self.is_stateful or counts[topic] % had[topic]:
                counts[topic] = had[topic]
        actives = group_by_partition(
            counts,
            self.systems,
            changelog_partitions={task.task_name: task.changelog_partition for task in actives},
            previous=inputs_of(before),
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


def _location(group: GroupView, processor_id: str, task: str, *, stays: bool) -> str:
    """Return the location of a task's state: its processor's, once that runs the newest version.

    Until then it is where the task ran last; a standby that never ran has none. Its processor may
    be back elsewhere, or may not have started it yet. Samza's own processors report neither.
    """
    member = group.first_of(processor_id)
    ran = group.locality.get(task, ANY_HOST)
    if member is None:
        return ran
    is_here = stays or not member.holds_standbys or group.runs_newest(member)
    is_new = ran == ANY_HOST and task == active_task_of(task)
    return member.location if is_here or is_new else ran
