"""A bounce as a picture: each request until its container was back, and within it the time down. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.orchestration.bounce.row import Bounced
from samza_dagster.orchestration.operations.picture import DOWN, Bar, Line, lines_svg
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, Stand

_BAD = (Stand.FAILED, Stand.STUCK)


def bounce_svg(rows: Iterable[Bounced]) -> str:
    """By the coordinator's clock; who isn't asked for yet has a line without a bar."""
    known = list(rows)
    back = sum(r.stand is Stand.BACK for r in known)
    bad = sum(r.stand in _BAD for r in known)
    flying = sum(r.stand in UNDER_WAY for r in known)
    title = f"{back} of {len(known)} back"
    title += (f", {flying} in flight" if flying else "") + (f", {bad} failed" if bad else "")
    kinds = (("s", "back"), ("o", "in flight"), DOWN)
    return lines_svg(title, [_restart(r) for r in known], kinds)


def _restart(row: Bounced) -> Line:
    bars: list[Bar] = []
    if row.asked_ms is not None:
        kind = "s" if row.stand is Stand.BACK else "d" if row.stand in _BAD else "o"
        bars.append(Bar(kind, row.asked_ms, row.back_ms))
        if row.stop_ms is not None:
            bars.append(Bar("d", row.stop_ms, row.in_ms or row.back_ms, is_inner=True))
    down = f"{row.down_s:.1f} s down" if bars and row.down_s is not None else ""
    pressing = bool(bars) and row.stand is not Stand.BACK
    return Line(row.processor, row.now_on or row.host, bars, down or row.stand.value, pressing)
