"""A standby that lives and applies nothing: Samza restarts only what has died.

It is stopped, and starts again as after a death: the first time on its own host, where its
store is, the next times in a row elsewhere. One that stands still wherever it starts is
left alone longer and longer between its restarts: what it has applied is still a start.
"""

from __future__ import annotations

from samza_dagster.placement import containers, failures
from samza_dagster.placement.commands import CountMetric
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Phase, Processor, Role

HEALTHY_AFTER_MS = 1_800_000
"""Having applied for so long since the last restart, one that stands still does so anew."""
FIRST_PAUSE_MS = 300_000
LONGEST_PAUSE_MS = 3_600_000
# Beyond so many the pause is the longest anyway.
_REMEMBERED = 6


def stalled(draft: Draft, execution_id: str, for_ms: int) -> None:
    """It has applied nothing for `for_ms`: it is stopped, and starts again.

    Counted as a failure. Left alone while its active is down or anything else is under way
    in its group, for a standby that is behind is still better than none, and in the pause
    after its last restarts. It is said again.
    """
    group = draft.group_of_id(execution_id)
    if group is None or group.action is not None or group.failover is not None:
        return
    processor = _running(group, execution_id)
    if processor is None or processor.role is not Role.STANDBY or not _active_runs(group):
        return
    before = _in_a_row(processor, draft.now_ms - for_ms)
    # Below 0: the clock is another leader's.
    if before and 0 <= draft.now_ms - before[-1] < pause_ms(len(before)):
        return
    failures.count_death(draft, group.group_id, processor.processor_id)
    draft.emit(CountMetric("stalled-standbys"))
    _remember(draft, group, processor.processor_id, before)
    containers.stop(draft, group.group_id, processor.processor_id)


def pause_ms(in_a_row: int) -> int:
    """How long after so many restarts in a row the next one comes at the soonest.

    None before the second, which tries another host.
    """
    if in_a_row < 2:
        return 0
    return min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << (in_a_row - 2))


def _in_a_row(processor: Processor, since_ms: int) -> tuple[int, ...]:
    """Its restarts before this one, which stands still since then, without a healthy time."""
    before = processor.stalled_at_ms
    return before if before and since_ms - before[-1] < HEALTHY_AFTER_MS else ()


def _remember(draft: Draft, group: Group, processor_id: str, before: tuple[int, ...]) -> None:
    processor = draft.processor(group.group_id, processor_id)
    assert processor.incarnation is not None
    host = processor.incarnation.host
    avoid = processor.avoid_hosts
    if before and _has_another_host(draft, group, processor_id, host):
        avoid = failures.avoiding(processor, host)
    draft.put_processor(
        group.group_id,
        processor.evolve(avoid_hosts=avoid, stalled_at_ms=(*before, draft.now_ms)[-_REMEMBERED:]),
    )


def _has_another_host(draft: Draft, group: Group, processor_id: str, host: str) -> bool:
    forbidden = draft.forbidden_hosts(group.group_id, processor_id)
    return any(name != host and name not in forbidden for name in draft.hosts)


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
