"""Input and output of every grouper, in a cluster and in a standalone group alike (SAMZA-1554)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from samza_dagster.model import ContainerModel, TaskModel
from samza_dagster.model.naming import ANY_HOST


@dataclass(frozen=True)
class TaskLocality:
    """The place where a task, active or standby, ran last and so has its state.

    Unknown is `""` for the processor and `ANY_HOST` for the location. `pinned_to` is the location
    that a request has set, wherever it ran; `ANY_HOST` for most. `stays`: it is to keep its
    processor, if that is there with the state. `former` are processors that had it before that one,
    newest first: they are preferred to others that haven't its state either.
    """

    processor_id: str = ""
    location_id: str = ANY_HOST
    pinned_to: str = ANY_HOST
    stays: bool = False
    former: tuple[str, ...] = ()


class Grouper(Protocol):
    """A pure function that gives each processor its tasks, whatever the order of its input.

    Only Samza's `by_container_ids` depends on the order, where it deals in turn.

    `tasks` may have standbys among them (a standalone group's; a cluster gives each container
    standby containers afterwards, `with_standbys`). `task_locality` is task name → where it ran
    last: a task that isn't in it is new. The grouper may ignore pins; the caller checks the result.
    `processor_locality` is processor id → location, or `ANY_HOST` where that isn't known. A
    processor without a task has no container. Where processors may have no standby tasks, as
    Samza's own in a group with ours, and there are some, it is given their ids as `actives_only`.
    """

    def __call__(
        self,
        tasks: Sequence[TaskModel],
        task_locality: Mapping[str, TaskLocality],
        processor_locality: Mapping[str, str],
    ) -> Mapping[str, ContainerModel]:
        """Return processor id → container."""
        ...


def in_order(processor_ids: Iterable[str]) -> list[str]:
    """Sort numbers by their value, before other ids by name."""
    return sorted(
        processor_ids, key=lambda each: (not _is_number(each), len(each) * _is_number(each), each)
    )


def _is_number(processor_id: str) -> bool:
    return processor_id.isascii() and processor_id.isdigit()


def containers_of(
    tasks: Mapping[str, Iterable[TaskModel]], processor_locality: Mapping[str, str]
) -> dict[str, ContainerModel]:
    """Return the containers of processors that have tasks, each with its tasks by name."""
    found: dict[str, ContainerModel] = {}
    for processor_id in in_order(tasks):
        own = {task.task_name: task for task in sorted(tasks[processor_id], key=task_name)}
        location = processor_locality[processor_id]
        if own:
            found[processor_id] = ContainerModel(
                processor_id=processor_id,
                tasks=own,
                location_id=None if location == ANY_HOST else location,
            )
    return found


def task_name(task: TaskModel) -> str:
    """Return the key of the order in which Samza deals tasks."""
    return task.task_name
