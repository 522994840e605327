"""Since when containers haven't reported, by the observer's clock, and whether a whole job is gone. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from samza_dagster.lag import Heard, all_silent, heard
from samza_dagster.orchestration.watch.memory import (
    COORDINATOR_REPLACED,
    JOB_DEAD,
    Memory,
    Trend,
)
from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover

_SHORT = 0xFFF


def reports_of(observation: Observation, memory: Memory, now_ms: int) -> dict[str, Heard]:
    """Container and incarnation → its newest report, as it was first seen."""
    return heard(
        memory.heard,
        {_source(c): _mark(c.reported_ms) for c in observation.containers if _can_be_heard(c)},
        now_ms,
    )


def committed(observation: Observation, memory: Memory, now_ms: int) -> Heard:
    """The job's newest commits, as they were first seen."""
    known, total = memory.committed, sum(c.committed or 0 for c in observation.containers)
    return heard({} if known is None else {"": known}, {"": total or None}, now_ms)[""]


def others_report(
    observation: Observation, reports: Mapping[str, Heard], settings: AutoFailover, now_ms: int
) -> bool:
    """Whether some container's reports come in time: then one that doesn't report is special.

    Where a whole job falls silent, the first of its containers is so an interval before the last:
    by then none of the others is in time any more.
    """
    least_ms = in_time_ms(observation, settings)
    return any(h.mark and now_ms - h.at_ms < least_ms for h in reports.values())


def in_time_ms(observation: Observation, settings: AutoFailover) -> int:
    """The age from which on a newest report is overdue: an interval before its container is silent."""
    return settings.report_silent_s * 1000 - observation.report_patience_ms // 3


def silent_for_ms(trend: Trend, settings: AutoFailover, now_ms: int) -> int:
    """For how long it has reported nothing; 0 while it commits: then only its reporter is broken."""
    return (
        0
        if trend.silent_ms is None or commits(trend, settings, now_ms)
        else now_ms - trend.silent_ms
    )


def commits(trend: Trend, settings: AutoFailover, now_ms: int) -> bool:
    """Whether it has been seen to commit within the time for which it may be silent."""
    return bool(trend.moves) and now_ms - trend.moved_ms < settings.report_silent_s * 1000


def silent_since(
    observation: Observation, reports: Mapping[str, Heard], settings: AutoFailover, now_ms: int
) -> dict[str, int]:
    """Container → since when it hasn't reported, for those that are followed for that.

    None where none has ever reported, or under a coordinator that shows its life where none does: it
    tells itself who lives.
    """
    may_be_gone = not observation.can.shows_its_life and any(h.mark for h in reports.values())
    if not (may_be_gone or others_report(observation, reports, settings, now_ms)):
        return {}
    return {
        c.processor_id: at_ms
        for c in observation.containers
        if _can_be_heard(c)
        and now_ms - (at_ms := reports[_source(c)].at_ms) >= settings.report_silent_s * 1000 // 2
    }


def newest_report_ms(seen: ContainerSeen, reports: Mapping[str, Heard]) -> int:
    """When its newest report was first seen; 0: none was."""
    known = reports.get(_source(seen))
    return known.at_ms if known is not None and known.mark else 0


def _can_be_heard(seen: ContainerSeen) -> bool:
    """It runs, and its reports aren't where nothing can be read: its silence counts anew after that."""
    return seen.runs and (seen.reported_ms is not None or not seen.unread)


def _source(seen: ContainerSeen) -> str:
    """A container as one that reports: a new incarnation has its own silence."""
    return f"{seen.processor_id} {zlib.crc32(seen.identity.encode()) & _SHORT}"


def _mark(reported_ms: int | None) -> int | None:
    """What tells a report from the one before; few digits, for the cursor has one of each."""
    return None if reported_ms is None else 1 + zlib.crc32(str(reported_ms).encode()) % _SHORT


def job_trouble(
    observation: Observation,
    reports: Mapping[str, Heard],
    memory: Memory,
    settings: AutoFailover,
    now_ms: int,
) -> tuple[str, str] | None:
    """The signal and why; None where nothing is wrong, or a coordinator that shows its life tells it.

    A new deployment is told until each container has reported in it.
    """
    if observation.dead:
        return JOB_DEAD, observation.dead
    if observation.can.shows_its_life:
        return None
    if not observation.application and not any(c.unread for c in observation.containers):
        silent = all_silent(
            reports.values(),
            worked_ms=memory.committed.at_ms if memory.committed is not None else 0,
            now_ms=now_ms,
            after_ms=settings.report_silent_s * 1000,
        )
        if silent:
            return JOB_DEAD, silent
    changed_ms = memory.deployment_ms
    is_new = changed_ms and now_ms - changed_ms < settings.report_silent_s * 1000
    if is_new and any(h.mark and h.at_ms <= changed_ms for h in reports.values()):
        return COORDINATOR_REPLACED, (
            f"deployment {observation.deployment} runs for {(now_ms - changed_ms) / 1000:.0f} s: a new"
            " attempt of the AM, or the job was deployed again"
        )
    return None
