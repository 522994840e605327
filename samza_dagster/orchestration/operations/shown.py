"""The metadata of an operation: its plan, each container's result, the map, the cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import dagster as dg
from dagster import serialize_value

from samza_dagster.orchestration.operations.schedule import (
    BAD,
    UNDER_WAY,
    Progress,
    Result,
    RunEnd,
    UnitStatus,
)
from samza_dagster.orchestration.operations.work import UnitWork
from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.requests.follow import TO_FIRST_COMMIT, Metadata
from samza_dagster.orchestration.show.pictures import MOST_BYTES, picture
from samza_dagster.orchestration.show.tables import (
    lines_within,
    map_markdown,
    map_shown,
    map_table,
    table_within,
)
from samza_dagster.orchestration.show.timeline import (
    DOWN,
    Bar,
    TimelineRow,
    lines_svg,
    timeline_svg,
)
from samza_dagster.orchestration.text import clock, in_words

if TYPE_CHECKING:
    from samza_dagster.client import JobView

STEPS = ("container", "step", "at", "seconds", "what", "status", "message", "request")
MOST_OF_ONE = 30_000
"""Bytes of one table: those of an event and the plan's record are together below 300 kB."""
MOST_MOMENTS = 60
_NOTHING = "nothing begins after a failure"
SHOWN = 500
_TABLE_BYTES, _MAP_TABLE_BYTES, _LEAST_TABLE_BYTES = 70_000, 20_000, 10_000
_ROOM = MOST_BYTES - 36_000
"""Bytes for the map and the tables: an event has less than 300 kB in all, its text and the picture of the operation among them."""
OUTCOMES = (
    *("container", "what", "mode", "outcome", "asked", "down_seconds", "seconds", "back_at"),
    *("host", "lag", "attempt", "why"),
)
_DESCRIPTIONS = {
    "asked": "when its restart was asked for, UTC",
    "down_seconds": "from its stop until it checked in",
    "seconds": "from its request until it was verified and its place free",
    "back_at": "when it was verified, UTC",
    "lag": "records that its worst store was behind when it was verified",
}
_WHY = 160
_WHY_CHARACTERS = 500


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
        f"At most {plan.schedule.at_once} at a time, never two of a group; {_NOTHING}.",
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


def steps_table(units: Iterable[UnitWork]) -> dg.TableMetadataValue:
    """Every step that ended, container by container; of a wait that failed the outcomes tell."""
    rows = [
        {
            "at": clock(ended.end_ms),
            "seconds": (ended.end_ms - ended.begin_ms) / 1000,
            "container": work.unit.processor,
            "step": ended.step.name,
            "what": ended.step.text(),
            "status": ended.status,
            "message": ended.message,
            "request": ended.request or None,
        }
        for work in units
        for ended in work.ended
        if ended.status
    ]
    return table_within(rows, STEPS, MOST_OF_ONE)


def pictures(units: Collection[UnitWork]) -> dict[str, dg.MetadataValue[str]]:
    """How far each is, and the newest statuses that were read."""
    moments = sorted((m for work in units for m in work.moments), key=lambda m: m[2])
    shown = moments[-MOST_MOMENTS:]
    drawn = progress_svg(work.row for work in units)
    return {
        "progress": dg.MetadataValue.md(picture(drawn, "progress")),
        "timeline": dg.MetadataValue.md(picture(timeline_svg(shown), "timeline")),
    }


def outcomes_table(
    rows: Sequence[Progress], most_bytes: int = MOST_OF_ONE
) -> dg.TableMetadataValue:
    """Return a table of each container's result."""
    return table_within([_cells(r) for r in _shown(rows)], OUTCOMES, most_bytes, _DESCRIPTIONS)


def failures_text(rows: Sequence[Progress]) -> str:
    """Return failures, and containers that weren't begun or are left waiting."""
    failed = "; ".join(f"{row.processor}: {row.why}" for row in rows if row.status in BAD)
    left = [row.processor for row in rows if row.status is UnitStatus.WAITING]
    waiting = f"not begun or left waiting: {', '.join(left)}" if left else ""
    return "; ".join(filter(None, (failed, waiting)))


def summary(plan: UnitsPlan, result: Result) -> str:
    """The outcome in some lines of Markdown."""
    back, bad = result.are(UnitStatus.BACK), result.are(*BAD)
    flying, left = result.are(*UNDER_WAY), result.are(UnitStatus.WAITING)
    lines = [
        f"**{result.end}**: {len(back)} of {len(plan.processors)} bounced; {result.because}",
        "",
        f"- bounced: {_names(back)}",
        f"- not bounced: {_names(left)}",
    ]
    lines += [f"- failed: {r.processor}: {r.why[:_WHY_CHARACTERS]}" for r in bad[:20]]
    lines += [
        f"- in flight: {r.processor}: request {r.uuid}; the coordinator goes on with it"
        for r in flying
    ]
    gone = result.are(UnitStatus.GONE)
    lines += [f"- no longer in the job: {_names(gone)}"] if gone else []
    if result.end is not RunEnd.DONE:
        lines.append(
            "\nRe-execute this run to go on: containers that are back aren't touched again"
        )
    return "\n".join(lines)


def summary_metadata(plan: UnitsPlan, result: Result, after: Sequence[HostRow]) -> Metadata:
    """The same with a table of all, the map before and after, and numbers."""
    back = result.are(UnitStatus.BACK)
    downs = sorted(r.down_s for r in back if r.down_s is not None)
    metadata: Metadata = {
        "what": dg.MetadataValue.md(summary(plan, result)),
        "progress": dg.MetadataValue.md(picture(progress_svg(result.rows), "progress")),
        **_map_and_tables(plan.before, after, result.rows),
        "bounced": len(back),
        "failed": len(result.are(*BAD)),
        "left": len(result.are(UnitStatus.WAITING)),
        "end": result.end.value,
        **longest_downtime(back),
    }
    if downs:
        metadata["down_seconds_median"] = median(downs)
        metadata["down_seconds_most"] = downs[-1]
    began = [r.asked_ms for r in back if r.asked_ms is not None]
    ended = [r.back_ms for r in back if r.back_ms is not None]
    if began and ended:
        seconds = (max(ended) - min(began)) / 1000
        metadata["seconds"] = seconds
        metadata["took"] = in_words(seconds)
    return metadata


def _map_and_tables(
    before: Sequence[HostRow], after: Sequence[HostRow], rows: Sequence[Progress]
) -> Metadata:
    """Return map and tables: of many containers the picture first, the tables have the rest of the room."""
    whole = outcomes_table(rows, _ROOM)
    least = min(_size(whole), _TABLE_BYTES)
    drawn = map_shown(
        before, after, _ROOM - least - _MAP_TABLE_BYTES, _ROOM - 2 * _LEAST_TABLE_BYTES
    )
    left = _ROOM - _size(drawn)
    hosts = min(_MAP_TABLE_BYTES, left // 2)
    return {
        "outcomes": outcomes_table(rows, left - hosts),
        "hosts_and_containers": drawn,
        "hosts_and_containers_table": map_table(before, after, hosts),
    }


def _size(value: dg.TableMetadataValue | dg.MarkdownMetadataValue) -> int:
    return len(serialize_value(value))


def _shown(rows: Sequence[Progress]) -> list[Progress]:
    """Return rows that fit, troubled ones first."""
    if len(rows) <= SHOWN:
        return list(rows)
    return sorted(rows, key=lambda r: r.status in (UnitStatus.BACK, UnitStatus.WAITING))[:SHOWN]


def _cells(row: Progress) -> dict[str, object]:
    moved = row.now_on not in ("", row.host)
    return {
        "container": row.processor,
        "what": row.what,
        "mode": row.mode,
        "outcome": row.status.value,
        "asked": None if row.asked_ms is None else clock(row.asked_ms),
        "down_seconds": row.down_s,
        "seconds": row.seconds,
        "back_at": None if row.back_ms is None else clock(row.back_ms),
        "host": f"{row.host} → {row.now_on}" if moved else row.host,
        "lag": row.lag,
        "attempt": row.attempt + 1,
        "why": row.why[:_WHY],
    }


def _names(rows: Sequence[Progress]) -> str:
    names = [row.processor for row in rows]
    more = f" and {len(names) - 100} more" if len(names) > 100 else ""
    return (", ".join(names[:100]) + more) or "nobody"


def progress_svg(rows: Iterable[Progress]) -> str:
    """Draw by the coordinator's clock; a container that isn't asked for yet has a line without a bar."""
    known = list(rows)
    back = sum(r.status is UnitStatus.BACK for r in known)
    bad = sum(r.status in BAD for r in known)
    flying = sum(r.status in UNDER_WAY for r in known)
    title = f"{back} of {len(known)} back"
    title += (f", {flying} in flight" if flying else "") + (f", {bad} failed" if bad else "")
    kinds = (("s", "back"), ("o", "in flight"), DOWN)
    return lines_svg(title, [_restart(r) for r in known], kinds)


def _restart(row: Progress) -> TimelineRow:
    bars: list[Bar] = []
    if row.asked_ms is not None:
        kind = "s" if row.status is UnitStatus.BACK else "d" if row.status in BAD else "o"
        bars.append(Bar(kind, row.asked_ms, row.back_ms))
        if row.stop_ms is not None:
            bars.append(Bar("d", row.stop_ms, row.in_ms or row.back_ms, is_inner=True))
    down = f"{row.down_s:.1f} s down" if bars and row.down_s is not None else ""
    pressing = bool(bars) and row.status is not UnitStatus.BACK
    return TimelineRow(
        row.processor, row.now_on or row.host, bars, down or row.status.value, pressing
    )


def longest_downtime(rows: Iterable[Progress]) -> dict[str, float]:
    """For how long an active made no progress, the longest; dry runs look for it under this name."""
    downs = [row.first_commit_s for row in rows if row.first_commit_s is not None]
    return {f"move_longest_{TO_FIRST_COMMIT}": max(downs)} if downs else {}


def standby_cost(
    rows: Sequence[Progress], view: JobView, ends: Sequence[int | None]
) -> dict[str, str | float]:
    """Return the cost of standbys that existed for their moves only, against permanent ones.

    `ends` are the ends of their changelogs; their sum bounds what was replayed. None: unknown, or no changelog.
    """
    lived = [
        (one.standby_until_ms - one.standby_since_ms) / 1000
        for one in rows
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
    if known and len(known) == len(ends):
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
