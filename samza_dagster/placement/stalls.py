"""A standby that lives and applies nothing: Samza restarts only what has died."""

from __future__ import annotations

from samza_dagster.placement import containers, failures
from samza_dagster.placement.commands import CountMetric
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Phase, Processor, Role


def stalled(draft: Draft, execution_id: str) -> None:
    """It is stopped, and starts again as after a death, on its own host first.

    Counted as a failure, so that one which stalls again and again pauses between its starts.
    Left alone while its active is down or anything else is under way in its group: a
    standby that is behind is still better than none. It is said again.
    """
    group = draft.group_of_id(execution_id)
    if group is None or group.action is not None or group.failover is not None:
        return
    processor = _running(group, execution_id)
    if processor is None or processor.role is not Role.STANDBY or not _active_runs(group):
        return
    failures.count_death(draft, group.group_id, processor.processor_id)
    draft.emit(CountMetric("stalled-standbys"))
    containers.stop(draft, group.group_id, processor.processor_id)


def _running(group: Group, execution_id: str) -> Processor | None:
    for processor in group.processors.values():
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.execution_id == execution_id:
            return processor if processor.phase is Phase.RUNNING and processor.wanted else None
    return None


def _active_runs(group: Group) -> bool:
    return any(
        processor.role is Role.ACTIVE and processor.phase is Phase.RUNNING
        for processor in group.processors.values()
    )
