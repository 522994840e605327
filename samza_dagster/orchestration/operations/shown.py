"""What work on several containers shows: its plan, its steps, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.orchestration.operations.progress import Progress
from samza_dagster.orchestration.plans.units import Kind, State, UnitsPlan
from samza_dagster.orchestration.show.pictures import picture
from samza_dagster.orchestration.show.tables import lines_within, map_markdown, table_within
from samza_dagster.orchestration.show.timeline import (
    DOWN,
    Bar,
    TimelineRow,
    lines_svg,
    timeline_svg,
)
from samza_dagster.orchestration.text import clock

if TYPE_CHECKING:
    from samza_dagster.client import JobView

STEPS = ("container", "step", "at", "seconds", "what", "status", "message", "request")
MOST_OF_ONE = 30_000
"""Bytes of one table: those of an event and the plan's record are together below 300 kB."""
MOST_MOMENTS = 60
_WAITS = (Kind.WAIT_WARM, Kind.WAIT_PROCESSING, Kind.WAIT_REPORT)
_NOTHING = "nothing begins after a failure"
OUTCOMES = ("container", "what", "why", "state", "down_seconds", "failed")


def plan_markdown(plan: UnitsPlan) -> str:
    """The plan for a person: each unit, why, and its steps in order."""
    about = f" of `{plan.subject}`" if plan.subject else ""
    lines = [f"**{plan.what}**{about} of `{plan.job}`: {len(plan.units)} containers", ""]
    if plan.units:
        lines += ["| | container | what | why | steps |", "|---|---|---|---|---|"]
    rows: list[str] = []
    for number, unit in enumerate(plan.units, start=1):
        steps = "; ".join(step.text() for step in unit.steps)
        rows.append(f"| {number} | {unit.processor} | {unit.what} | {unit.why} | {steps} |")
    lines += lines_within(rows, MOST_OF_ONE, "| … | and {} more | | | |")
    catch_up = plan.limits.catch_up
    if plan.notices:
        listed = [f"- {line}" for line in plan.notices]
        lines += ["", *lines_within(listed, MOST_OF_ONE // 2, "- and {} more")]
    lines += [
        "",
        f"At most {plan.at_once} at a time, never two of a group; {_NOTHING}.",
        f"Warm is at most {catch_up.lag_limit:,} records behind, a new standby for"
        f" {catch_up.steady_s:g} s (within {catch_up.timeout_s:g} s).",
        "",
        *lines_within(
            map_markdown(plan.before).splitlines(), MOST_OF_ONE, "| … | and {} more hosts | |"
        ),
    ]
    return "\n".join(lines)


def plan_table(plan: UnitsPlan) -> dg.TableMetadataValue:
    """The same as a table."""
    rows = [
        {
            "container": unit.processor,
            "what": unit.what,
            "why": unit.why,
            "steps": "; ".join(step.text() for step in unit.steps),
        }
        for unit in plan.units
    ]
    return table_within(rows, ("container", "what", "why", "steps"), MOST_OF_ONE)


def steps_table(progress: Sequence[Progress]) -> dg.TableMetadataValue:
    """Every step that ended, container by container; of a wait that failed the outcomes tell."""
    rows = [
        {
            "at": clock(ended.end_ms),
            "seconds": (ended.end_ms - ended.begin_ms) / 1000,
            "container": one.unit.processor,
            "step": ended.step.name,
            "what": ended.step.text(),
            "status": ended.status,
            "message": ended.message,
            "request": ended.request or None,
        }
        for one in progress
        for ended in one.ended
        if ended.status
    ]
    return table_within(rows, STEPS, MOST_OF_ONE)


def pictures(progress: Sequence[Progress]) -> dict[str, dg.MetadataValue[str]]:
    """How far each is, and the newest statuses that were read."""
    moments = sorted((m for one in progress for m in one.moments), key=lambda m: m[2])
    shown = moments[-MOST_MOMENTS:]
    return {
        "progress": dg.MetadataValue.md(picture(_units_svg(progress), "progress")),
        "timeline": dg.MetadataValue.md(picture(timeline_svg(shown), "timeline")),
    }


def _units_svg(progress: Sequence[Progress]) -> str:
    """Units of steps: each step that ended, and within them the time that an active was down."""
    done = sum(one.state is State.DONE for one in progress)
    bad = sum(one.state is State.FAILED for one in progress)
    title = f"{done} of {len(progress)} done" + (f", {bad} failed" if bad else "")
    kinds = (("a", "requested"), ("o", "waited for"), DOWN)
    return lines_svg(title, [_unit(one) for one in progress], kinds)


def _unit(one: Progress) -> TimelineRow:
    bars = [
        Bar("d" if e.failed else "o" if e.step.kind in _WAITS else "a", e.begin_ms, e.end_ms)
        for e in one.ended
    ]
    if one.stopped_at_ms is not None and one.moved_at_ms is not None:
        bars.append(Bar("d", one.stopped_at_ms, one.moved_at_ms, is_inner=True))
    down = f"{one.down_s:.1f} s down" if one.down_s is not None else ""
    pressing = one.state is State.FAILED
    return TimelineRow(one.unit.processor, one.state.value, bars, down, pressing)


def outcomes_table(progress: Sequence[Progress]) -> dg.TableMetadataValue:
    """How each container's unit ended."""
    rows = [
        {
            "container": one.unit.processor,
            "what": one.unit.what,
            "why": one.unit.why,
            "state": one.state.value,
            "down_seconds": one.down_s,
            "failed": one.why_failed or None,
        }
        for one in progress
    ]
    return table_within(rows, OUTCOMES, MOST_OF_ONE)


def failures_text(progress: Sequence[Progress]) -> str:
    """What failed, and who wasn't begun or is left waiting."""
    failed = "; ".join(
        f"{one.unit.processor}: {one.why_failed}" for one in progress if one.state is State.FAILED
    )
    left = [one.unit.processor for one in progress if one.state is State.WAITING]
    waiting = f"not begun or left waiting: {', '.join(left)}" if left else ""
    return "; ".join(filter(None, (failed, waiting)))


def standby_cost(
    progress: Sequence[Progress], view: JobView, ends: Sequence[int | None]
) -> dict[str, str | float]:
    """What the standbys cost that were there for their moves only, against permanent ones.

    `ends` are those of their changelogs, whose sum is the most that was replayed; None: it isn't known.
    """
    lived = [
        (one.standby_until_ms - one.standby_since_ms) / 1000
        for one in progress
        if one.standby_since_ms is not None and one.standby_until_ms is not None
    ]
    if not lived:
        return {"just_in_time_standbys": 0}
    memory = view.container_memory_mb
    seconds = sum(lived)
    metadata: dict[str, str | float] = {
        "just_in_time_standbys": len(lived),
        "standby_seconds": round(seconds, 3),
    }
    known = [end for end in ends if end is not None]
    if len(known) == len(ends):
        metadata["records_replayed_at_most"] = sum(known)
    if memory is not None:
        metadata["standby_memory"] = (
            f"{memory * seconds / 3600:,.1f} MiB·h in {len(lived)} standbys"
        )
        metadata["permanent_standbys_instead"] = (
            f"{memory * len(lived):,} MiB all the time, {memory * len(lived) * 24:,} MiB·h a day, and"
            " each record applied as it is written; moves would need no wait"
        )
    return metadata
