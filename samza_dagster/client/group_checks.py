"""What is asked of a task and what of a processor, where tasks are placed. Pure."""

from __future__ import annotations

from samza_dagster.client.views import JobView, ProcessorView
from samza_dagster.errors import Refused, some_of
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN, LAST_SEEN, STANDBY


def check_unit(view: JobView, processor: ProcessorView, destination: str) -> None:
    """Raises `Refused` for a processor that is to move, and for a task that is to restart."""
    pid = processor.processor_id
    if not view.capabilities.places_tasks or (pid in view.members and destination == LAST_SEEN):
        return
    if pid in view.members:
        tasks = some_of([repr(task) for task in processor.tasks]) or "it has none"
        fix = f"place {pid} --to LAST_SEEN; or name the task: {tasks}"
        raise Refused(
            f"place {pid} --to {destination}: a processor restarts where it is, its tasks are moved",
            seen=f"{pid} is a processor at {processor.host}",
            fix=fix,
        )
    if destination in (LAST_SEEN, FORCE_RESTART_LAST_SEEN):
        holder = next((m for m, it in view.members.items() if pid in it.tasks), None)
        raise Refused(
            f"place {pid!r} --to {destination}: a task restarts with its processor",
            seen=f"{pid} is a task of {holder or 'no registered processor'}",
            fix=f"place {holder} --to LAST_SEEN"
            if holder
            else "wait until a version gives it to one",
        )


def group_steps(
    view: JobView, processor: ProcessorView, destination: str, host: str | None
) -> tuple[str, ...]:
    """What a group does for a request, one step after the other."""
    pid, source = processor.processor_id, processor.host or "no location"
    if pid in view.members:
        return (f"{pid} ends its containers and starts them again at {source}; no task moves",)
    target = host or "a location that the leader chooses"
    moves = f"{pid}, and its standby the other way" if destination == STANDBY else pid
    return (
        f"the leader makes a version of the group that has {moves}, from {source} at {target}",
        "each processor whose tasks it changes stops those, and starts them once all have joined",
        f"{pid} stays at {target} over later versions, while a processor is there",
    )
