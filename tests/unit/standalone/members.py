"""Processors of a group and what they see of it, for scenes of what one does next."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Member, Running
from samza_dagster.standalone.processor import (
    Expect,
    ProcessorState,
    Settings,
    StartWork,
    StopWork,
)

SETTINGS = Settings(debounce_ms=20, consensus_ms=40, session_ms=30, stop_ms=10)
A, B, C = (Member(f"000{n}", name, f"h{n}") for n, name in enumerate(("a", "b", "c")))


def container(processor_id: str, *tasks: str) -> ContainerModel:
    made = {
        name: TaskModel(
            task_name=name,
            system_stream_partitions=(),
            changelog_partition=0,
            task_mode=TaskMode.STANDBY if name.startswith("standby") else TaskMode.ACTIVE,
        )
        for name in tasks
    }
    return ContainerModel(processor_id=processor_id, tasks=made)


def start(*containers: ContainerModel) -> StartWork:
    return StartWork(containers, (), model())


def expect(*containers: ContainerModel) -> Expect:
    return Expect(containers, (), model())


def stop(*ids: str) -> StopWork:
    return StopWork(frozenset(ids))


def stopped(state: ProcessorState) -> ProcessorState:
    """All have ended that were told to."""
    return replace(state, work=state.work.ended(state.work.ending))


def is_there(state: ProcessorState, container: str, now_ms: int) -> ProcessorState:
    """That container is expected, and its process waits for its start."""
    return replace(state, work=state.work.now_there(container, now_ms))


def at_work(state: ProcessorState, container: str, now_ms: int) -> ProcessorState:
    """That container processes its tasks."""
    return replace(state, work=state.work.now_at_work(container, now_ms))


def model(**tasks: str) -> JobModel:
    """`a="1 2"`: the tasks of each processor."""
    return JobModel(config={}, containers={p: container(p, *t.split()) for p, t in tasks.items()})


def group(
    *members: Member,
    version: int = 0,
    state: BarrierState = BarrierState.NEW,
    joined: str = "",
    **tasks: str,
) -> GroupView:
    barrier = Barrier(state, frozenset(joined.split())) if version else None
    made = model(**tasks) if version else None
    return GroupView(members, version, version, 0, version, made, barrier)


def said(state: ProcessorState, group: GroupView) -> GroupView:
    """The group with what that processor has reported last."""
    return replace(group, running={state.sequence or "": state.running or Running(0)})


def planned(group: GroupView, staying: Set[str] = frozenset()) -> JobModel:
    del staying
    return model(**{member.processor_id: member.processor_id for member in group.members})


def at(member: Member, **known: object) -> ProcessorState:
    """A registered processor, which found an empty group, at time 100."""
    made = ProcessorState(
        member.processor_id, member.location, SETTINGS, 100, member.sequence, found=0
    )
    return replace(made, **known)  # pyright: ignore[reportArgumentType]
