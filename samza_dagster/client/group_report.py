"""A reading of a group as a document for people and programs. Pure."""

from __future__ import annotations

from typing import Any

from samza_dagster.model import TaskMode
from samza_dagster.standalone.group import BarrierState, GroupView
from samza_dagster.standalone.local_stores import barred_stores


def group_report(group: GroupView) -> dict[str, Any]:
    """Return `{version, agreed, barrier, awaited, duplicates, processors, without_processor, unreadable}`.

    For a processor, `runs_version` is the version that it reports to run, and `silent_ms` how long
    active tasks that stayed there had no container at its newest change (`Running`). `awaited` are the
    processors that a NEW barrier waits for. `without_processor` are active tasks that the agreed
    version assigns to no registered processor: nobody processes them. `unreadable` are nodes that were
    left out. `trouble` is the reason why the leader makes no version.
    """
    registered = {member.processor_id for member in group.members}
    barrier = group.barrier
    joined = barrier.participants if barrier is not None else frozenset[str]()
    is_new = barrier is not None and barrier.state is BarrierState.NEW
    leader = group.leader
    processors: list[dict[str, Any]] = []
    for member in group.members:
        container = group.containers.get(member.processor_id)
        tasks = container.tasks.values() if container is not None else ()
        running = group.running.get(member.sequence)
        processors.append(
            {
                "processor_id": member.processor_id,
                "location": member.location,
                "leads": member == leader,
                "has_joined": member.processor_id in joined,
                "runs_version": None if running is None else running.version,
                "silent_ms": None if running is None else running.silent_ms,
                "trouble": "" if running is None else running.trouble,
                "holds_standbys": member.holds_standbys,
                "unused_stores": list(member.stores.unused),
                "barred_stores": list(member.stores.barred),
                "active_tasks": _names(tasks, TaskMode.ACTIVE),
                "standby_tasks": _names(tasks, TaskMode.STANDBY),
            }
        )
    return {
        "version": group.version,
        "agreed": group.agreed,
        "barrier": barrier.state.value if barrier is not None else None,
        "awaited": sorted((registered & group.containers.keys()) - joined) if is_new else [],
        "duplicates": group.has_duplicates,
        "processors": processors,
        "without_processor": group.without_processor,
        "unreadable": list(group.unreadable),
    }


def troubles(report: dict[str, Any]) -> list[str]:
    """Return troubles that somebody should look at; empty when all is well."""
    found: list[str] = []
    if not report["processors"]:
        found.append("no processor is registered: nobody leads, and no task is processed")
    if report["duplicates"]:
        found.append("two processors have one id: no version is published until one has ended")
    if report["awaited"]:
        found.append(f"version {report['version']} waits for {', '.join(report['awaited'])}")
    if report["barrier"] == BarrierState.TIMED_OUT.value:
        found.append(f"version {report['version']} was given up: not all joined in time")
    leaders = [row for row in report["processors"] if row["leads"] and not row["holds_standbys"]]
    for leader in leaders:
        found.append(
            f"{leader['processor_id']}, one of Samza's own processors, leads: no task has a standby, and "
            "no request is taken up, until one of ours does; for that, restart Samza's after ours have started"
        )
    found += [f"left out: {each}" for each in report["unreadable"]]
    for row in report["processors"]:
        if row["trouble"]:
            found.append(
                f"{row['processor_id']} leads, and the group stays with version {report['version']}: {row['trouble']}"
            )
        found += barred_stores(row["processor_id"], row["barred_stores"])
    if report["without_processor"]:
        tasks = ", ".join(report["without_processor"])
        found.append(f"nobody processes {tasks}: the leader's next version gives them away")
    return found


def _names(tasks: Any, mode: TaskMode) -> list[str]:
    return sorted(task.task_name for task in tasks if task.task_mode is mode)
