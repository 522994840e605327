"""From one reading of a standalone group to a `JobView`, in which a task is placed. Pure.

A task takes the role of a container in a cluster, a location that of a host, and a task with its
standbys that of a group. So all code about placement serves a standalone group unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.client.job_view import view_of_stream
from samza_dagster.client.views import (
    ALIVE_STATE,
    LAST_SEEN_STATE,
    LOST_STATE,
    UNKNOWN_STATE,
    Agreement,
    HostView,
    JobView,
    ProcessorView,
)
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.standalone.group import GroupView

STARTING_STATE = "starting"


def view_of_group(
    job_name: str, job_id: str, group: GroupView, config: Mapping[str, str], now_ms: int
) -> JobView:
    """Return the job as its group shows it; `config` is the job's.

    A task is at the processor that the newest version names. It is `starting` until that processor has
    written that it runs there, and `unknown` without a host while the processor isn't registered.
    """
    base = view_of_stream(
        job_name,
        job_id,
        config={**config, DEPLOYMENT_ID: STANDALONE_DEPLOYMENT},
        task_containers={},
        task_modes={},
        localities={},
        requests={request.uuid: request for request in group.requests},
        responses=group.responses,
        now_ms=now_ms,
    )
    report = group_report(group)
    members = _members(group)
    tasks = _tasks(group, members)
    held_up = _held_up(group)
    ids = [member.processor_id for member in group.members]
    return replace(
        base,
        coordinator="standalone",
        processors=tasks,
        members=members,
        hosts=_hosts(members.values(), tasks.values()),
        actions=tuple(replace(action, trouble=held_up) for action in base.actions),
        queued=tuple(replace(action, trouble=held_up) for action in base.queued),
        host_affinity=True,
        agreement=Agreement(
            leader=group.leader.processor_id if group.leader is not None else None,
            version=group.version,
            agreed=group.agreed,
            awaited=tuple(report["awaited"]),
            twice=tuple(sorted(pid for pid, n in Counter(ids).items() if n > 1)),
            registrations={m.processor_id: m.sequence for m in group.members},
            silent_ms={
                m.processor_id: running.silent_ms
                for m in group.members
                if (running := group.running.get(m.sequence)) and running.silent_ms is not None
            },
        ),
        troubles=tuple(troubles(report)),
    )


def by_processor(view: JobView) -> JobView:
    """Return the view for restarting whole processors: each processor with a task takes the role of a container.

    Where nothing but containers is placed, it is the view itself.
    """
    if not view.capabilities.places_tasks:
        return view
    return replace(view, processors={pid: it for pid, it in view.members.items() if it.tasks})


def changelog_partitions(group: GroupView) -> dict[str, int]:
    """Active task → its changelog partition, of the newest version."""
    return {
        name: task.changelog_partition
        for container in group.containers.values()
        for name, task in container.tasks.items()
        if task.task_mode is TaskMode.ACTIVE
    }


def _members(group: GroupView) -> dict[str, ProcessorView]:
    found: dict[str, ProcessorView] = {}
    for member in group.members:
        container = group.containers.get(member.processor_id)
        found.setdefault(
            member.processor_id,
            ProcessorView(
                processor_id=member.processor_id,
                mode=container.mode if container is not None else TaskMode.ACTIVE,
                state=LAST_SEEN_STATE,
                host=member.location,
                tasks=tuple(sorted(container.tasks)) if container is not None else (),
                last_seen_host=member.location,
            ),
        )
    return found


def _tasks(group: GroupView, members: Mapping[str, ProcessorView]) -> dict[str, ProcessorView]:
    found: dict[str, ProcessorView] = {}
    for container in group.containers.values():
        member = members.get(container.processor_id)
        here = member.host if member is not None else None
        has_started = _has_started(group, container.processor_id)
        for name, task in container.tasks.items():
            ran = group.locality.get(name)
            runs = LAST_SEEN_STATE if has_started and ran == here else STARTING_STATE
            found[name] = ProcessorView(
                processor_id=name,
                mode=task.task_mode,
                state=UNKNOWN_STATE if here is None else runs,
                host=here,
                tasks=(name,),
                last_seen_host=ran,
                pinned=name in group.pins,
            )
    return found


def _has_started(group: GroupView, processor_id: str) -> bool:
    """Return whether it runs the agreed version; Samza's own processors report only each task's place."""
    member = group.first_of(processor_id)
    running = group.running.get(member.sequence) if member is not None else None
    return running is None or running.version >= group.agreed


def _hosts(members: Iterable[ProcessorView], tasks: Iterable[ProcessorView]) -> dict[str, HostView]:
    """Locations with a processor, and those where a task ran last and there is none any more."""
    alive = {member.host for member in members if member.host is not None}
    left = {task.last_seen_host for task in tasks if task.last_seen_host is not None} - alive
    states = {**dict.fromkeys(alive, ALIVE_STATE), **dict.fromkeys(left, LOST_STATE)}
    return {host: HostView(host=host, state=state) for host, state in sorted(states.items())}


def _held_up(group: GroupView) -> str:
    """Return why no processor takes up requests at present, or empty."""
    if group.leader is None:
        return "no processor is registered: the request waits until one leads"
    pid = group.leader.processor_id
    if not group.leader.holds_standbys:
        return f"{pid} leads, a processor of Samza's own, which takes no requests: it waits until one of ours leads"
    return ""
