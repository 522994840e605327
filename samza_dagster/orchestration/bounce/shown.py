"""What a bounce shows in the end: who was bounced, who wasn't, and where all of them are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dagster as dg
from dagster import serialize_value

from samza_dagster.orchestration.bounce.row import Bounced, Result
from samza_dagster.orchestration.operations.loop import RunEnd
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, UnitStatus
from samza_dagster.orchestration.plans.bounce import BouncePlan
from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.requests.follow import Metadata
from samza_dagster.orchestration.show.pictures import MOST_BYTES, picture
from samza_dagster.orchestration.show.tables import map_shown, map_table, table_within
from samza_dagster.orchestration.show.timeline import DOWN, Bar, TimelineRow, lines_svg
from samza_dagster.orchestration.text import clock, in_words

SHOWN = 500
_TABLE_BYTES, _MAP_TABLE_BYTES, _LEAST_TABLE_BYTES = 70_000, 20_000, 10_000
_ROOM = MOST_BYTES - 36_000
"""Bytes for the map and the tables: an event has less than 300 kB in all, its text and the picture of the bounce among them."""
_COLUMNS = (
    *("processor", "mode", "outcome", "asked", "down_seconds", "seconds", "back_at"),
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
_BAD = (UnitStatus.FAILED, UnitStatus.STUCK)


def summary(plan: BouncePlan, result: Result) -> str:
    """The outcome in some lines of Markdown."""
    back, bad = result.are(UnitStatus.BACK), result.are(UnitStatus.FAILED, UnitStatus.STUCK)
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
        lines.append("\nRe-execute this run to go on: whoever is back isn't touched again")
    return "\n".join(lines)


def summary_metadata(plan: BouncePlan, result: Result, after: Sequence[HostRow]) -> Metadata:
    """The same with a table of all, the map before and after, and numbers."""
    back = result.are(UnitStatus.BACK)
    downs = sorted(r.down_s for r in back if r.down_s is not None)
    metadata: Metadata = {
        "what": dg.MetadataValue.md(summary(plan, result)),
        "progress": dg.MetadataValue.md(picture(bounce_svg(result.rows), "bounce")),
        **_map_and_tables(plan.before, after, result.rows),
        "bounced": len(back),
        "failed": len(result.are(UnitStatus.FAILED, UnitStatus.STUCK)),
        "left": len(result.are(UnitStatus.WAITING)),
        "end": result.end.value,
    }
    if downs:
        metadata["down_seconds_median"] = downs[len(downs) // 2]
        metadata["down_seconds_most"] = downs[-1]
    began = [r.asked_ms for r in back if r.asked_ms is not None]
    ended = [r.back_ms for r in back if r.back_ms is not None]
    if began and ended:
        seconds = (max(ended) - min(began)) / 1000
        metadata["seconds"] = seconds
        metadata["took"] = in_words(seconds)
    return metadata


def _map_and_tables(
    before: Sequence[HostRow], after: Sequence[HostRow], rows: Sequence[Bounced]
) -> Metadata:
    """What is largest: of many containers the picture first, the tables have the rest of the room."""
    cells = [_cells(r) for r in _shown(rows)]
    whole = table_within(cells, _COLUMNS, _ROOM, _DESCRIPTIONS)
    least = min(_size(whole), _TABLE_BYTES)
    drawn = map_shown(
        before, after, _ROOM - least - _MAP_TABLE_BYTES, _ROOM - 2 * _LEAST_TABLE_BYTES
    )
    left = _ROOM - _size(drawn)
    hosts = min(_MAP_TABLE_BYTES, left // 2)
    return {
        "processors_table": table_within(cells, _COLUMNS, left - hosts, _DESCRIPTIONS),
        "hosts_and_containers": drawn,
        "hosts_and_containers_table": map_table(before, after, hosts),
    }


def _size(value: dg.TableMetadataValue | dg.MarkdownMetadataValue) -> int:
    return len(serialize_value(value))


def _shown(rows: Sequence[Bounced]) -> list[Bounced]:
    """What isn't as it should be comes first when not all have room."""
    if len(rows) <= SHOWN:
        return list(rows)
    return sorted(rows, key=lambda r: r.status in (UnitStatus.BACK, UnitStatus.WAITING))[:SHOWN]


def _cells(row: Bounced) -> dict[str, object]:
    moved = row.now_on not in ("", row.host)
    return {
        "processor": row.processor,
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


def _names(rows: Sequence[Bounced]) -> str:
    names = [row.processor for row in rows]
    more = f" and {len(names) - 100} more" if len(names) > 100 else ""
    return (", ".join(names[:100]) + more) or "nobody"


def bounce_svg(rows: Iterable[Bounced]) -> str:
    """By the coordinator's clock; who isn't asked for yet has a line without a bar."""
    known = list(rows)
    back = sum(r.status is UnitStatus.BACK for r in known)
    bad = sum(r.status in _BAD for r in known)
    flying = sum(r.status in UNDER_WAY for r in known)
    title = f"{back} of {len(known)} back"
    title += (f", {flying} in flight" if flying else "") + (f", {bad} failed" if bad else "")
    kinds = (("s", "back"), ("o", "in flight"), DOWN)
    return lines_svg(title, [_restart(r) for r in known], kinds)


def _restart(row: Bounced) -> TimelineRow:
    bars: list[Bar] = []
    if row.asked_ms is not None:
        kind = "s" if row.status is UnitStatus.BACK else "d" if row.status in _BAD else "o"
        bars.append(Bar(kind, row.asked_ms, row.back_ms))
        if row.stop_ms is not None:
            bars.append(Bar("d", row.stop_ms, row.in_ms or row.back_ms, is_inner=True))
    down = f"{row.down_s:.1f} s down" if bars and row.down_s is not None else ""
    pressing = bool(bars) and row.status is not UnitStatus.BACK
    return TimelineRow(
        row.processor, row.now_on or row.host, bars, down or row.status.value, pressing
    )
