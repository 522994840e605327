"""A processor's reading of its group in ZooKeeper: values, nothing decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from samza_dagster.model import ContainerModel, JobModel, TaskMode
from samza_dagster.model.placement_messages import PlacementRequest, PlacementResponse


class BarrierState(StrEnum):
    """The state of a version's barrier, in Samza's words."""

    NEW = "NEW"
    DONE = "DONE"
    TIMED_OUT = "TIMED_OUT"


class LocalStores(NamedTuple):
    """Directories of stores that a processor found when it started, by their path below its state directory.

    `unused`: their tasks run at another location since, or are none of the job's any more.
    `barred`: its user may not read and write them; a container that needs them fails.
    """

    unused: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


class Member(NamedTuple):
    """A registered processor. The one with the lowest `sequence` leads.

    Samza's own processors, in Java, know no standby tasks: they have `holds_standbys` False.
    """

    sequence: str
    processor_id: str
    location: str
    holds_standbys: bool = True
    stores: LocalStores = LocalStores()


class Pin(NamedTuple):
    """The location that a request has set for a task."""

    location: str
    uuid: str


class Running(NamedTuple):
    """A processor's report of the version that it runs.

    `restart` is the newest request by which it has restarted its containers. `silent_ms` is how
    long active tasks that this version or restart left there were without a container that had
    checked in: 0 where theirs ran on, None before any task has stayed. `trouble` is why a leader
    can't make a version; empty when it can.
    """

    version: int
    restart: str | None = None
    silent_ms: int | None = None
    trouble: str = ""


@dataclass(frozen=True)
class Barrier:
    """A version's barrier, and the processors that have joined it."""

    state: BarrierState
    participants: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GroupView:
    """A reading of a group.

    `members` in order of their sequences. `version` is the newest that was published, 0 before the
    first; `revision` is its node's, for compare-and-set; `model` and `barrier` are that version's.
    `agreed` is the newest version that all had joined. `highest` is the highest version of which
    anything lies in ZooKeeper, published or not. `locality` is where each task ran last.

    `requests` have no response yet, oldest first; `responses` are the newest of each request, by
    its uuid. `pins` are by task. `restarts` is the request by which a processor is to restart its
    containers. `running` is by the members' sequences; Samza's own processors say nothing there.
    `read_ms` is when all this was read, since the epoch, by the reader's clock. `unreadable` says
    what was left out as it isn't of its form, or is gone; `before` is the newest model that can be
    read where that of `version` can't. A member that doesn't lead sees neither locality nor
    placement but the restart that is its own. A leader sees where tasks ran, and their processors
    by older versions (`history`, newest first), when a reading `is_whole`.
    """

    members: tuple[Member, ...] = ()
    version: int = 0
    revision: int = 0
    agreed: int = 0
    highest: int = 0
    model: JobModel | None = None
    barrier: Barrier | None = None
    locality: Mapping[str, str] = field(default_factory=dict[str, str])
    requests: tuple[PlacementRequest, ...] = ()
    responses: Mapping[str, PlacementResponse] = field(default_factory=dict[str, PlacementResponse])
    pins: Mapping[str, Pin] = field(default_factory=dict[str, Pin])
    restarts: Mapping[str, str] = field(default_factory=dict[str, str])
    running: Mapping[str, Running] = field(default_factory=dict[str, Running])
    read_ms: int = 0
    unreadable: tuple[str, ...] = ()
    before: JobModel | None = None
    history: tuple[Mapping[str, str], ...] = ()
    is_whole: bool = True

    @property
    def leader(self) -> Member | None:
        """Return the member that leads; None in an empty group."""
        return self.members[0] if self.members else None

    @property
    def containers(self) -> Mapping[str, ContainerModel]:
        """Return the newest version's containers by processor."""
        return {} if self.model is None else self.model.containers

    def work_of(self, processor_id: str) -> ContainerModel | None:
        """Return the tasks that the newest version gives a processor, or None."""
        found = self.containers.get(processor_id)
        return found if found is not None and found.tasks else None

    def first_of(self, processor_id: str) -> Member | None:
        """Return the first member with that id; a later one with the same id is a duplicate."""
        return next((m for m in self.members if m.processor_id == processor_id), None)

    def runs_newest(self, member: Member) -> bool:
        """Return whether it reports that it runs the newest version; Samza's own report nothing."""
        running = self.running.get(member.sequence)
        return running is not None and running.version == self.version > 0

    @property
    def is_at_work(self) -> bool:
        """Return whether the newest version is agreed on, and each of ours runs its part."""
        is_agreed = self.barrier is not None and self.barrier.state is BarrierState.DONE
        ours = (member for member in self.members if member.holds_standbys)
        return is_agreed and all(map(self.runs_newest, ours))

    @property
    def without_processor(self) -> list[str]:
        """Return the active tasks that no registered processor has by the newest version."""
        left = (c.tasks for pid, c in self.containers.items() if self.first_of(pid) is None)
        active = TaskMode.ACTIVE
        return sorted(t for tasks in left for t in tasks if tasks[t].task_mode is active)

    @property
    def has_duplicates(self) -> bool:
        """Return whether two members share a processor id: no JobModel is published meanwhile."""
        return len({member.processor_id for member in self.members}) < len(self.members)


def processor_of(model: JobModel | None, task: str) -> str | None:
    """Return the processor of a task, active or standby, by a model, or None."""
    containers = model.containers if model is not None else {}
    return next((pid for pid, each in containers.items() if task in each.tasks), None)
