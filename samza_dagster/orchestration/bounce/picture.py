"""A bounce as a picture: a line for each processor, from its request until it was back. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from samza_dagster.orchestration.bounce.order import UNDER_WAY, Stand
from samza_dagster.orchestration.bounce.row import Bounced
from samza_dagster.orchestration.map_picture import natural
from samza_dagster.orchestration.pictures import in_words, svg_of

DRAWN_AT_MOST = 60
"""Rows for as many processors; of a larger bounce, those that are asked for last or aren't back."""
WIDTH = 960
_ROW, _TOP, _LEFT, _RIGHT = 20, 74, 260, 110
_BAD = (Stand.FAILED, Stand.STUCK)
_KINDS = (("s", "back"), ("o", "in flight"), ("d", "down or failed"))


def bounce_svg(rows: Iterable[Bounced]) -> str:
    """Bars over time, by the coordinator's clock: request to back, and within it the time down.

    Who isn't asked for yet has a line without a bar.
    """
    told = sorted(rows, key=lambda r: (r.asked_ms is None, r.asked_ms or 0, natural(r.processor)))
    shown = _of_interest(told)
    times = [at for r in shown for at in (r.asked_ms, r.stop_ms, r.in_ms, r.back_ms) if at]
    first, last = (min(times), max(times)) if times else (0, 0)
    span = max(1, last - first)

    def across(at_ms: int) -> float:
        return _LEFT + (at_ms - first) / span * (WIDTH - _LEFT - _RIGHT)

    drawn = [f'<text x="20" y="26" font-size="16">{escape(_title(told, shown))}</text>']
    for number, (kind, text) in enumerate(_KINDS):
        drawn.append(
            f'<rect class="{kind}" x="{20 + number * 130}" y="40" width="16" height="14"/>'
            f'<text x="{42 + number * 130}" y="52" font-size="13">{text}</text>'
        )
    if times:
        began = datetime.fromtimestamp(first / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        drawn.append(
            f'<text x="{WIDTH - 20}" y="52" font-size="12" text-anchor="end">'
            f"from {began}, {in_words(span / 1000)}</text>"
        )
    for number, row in enumerate(shown):
        y = _TOP + number * _ROW
        drawn.append(
            f'<text x="20" y="{y + 14}" font-size="13">{escape(row.processor[:12])}</text>'
            f'<text x="130" y="{y + 14}" font-size="12">{escape((row.now_on or row.host)[:16])}</text>'
        )
        if row.asked_ms is None:
            drawn.append(f'<text x="{_LEFT}" y="{y + 14}" font-size="12">{row.stand}</text>')
            continue
        end = row.back_ms or last
        kind = "s" if row.stand is Stand.BACK else "d" if row.stand in _BAD else "o"
        drawn.append(_bar(kind, across(row.asked_ms), across(end), y + 2, _ROW - 5))
        if row.stop_ms is not None:
            checked_in = row.in_ms or end
            drawn.append(_bar("d", across(row.stop_ms), across(checked_in), y + 5, _ROW - 11))
        said = f"{row.down_s:.1f} s down" if row.down_s is not None else row.stand.value
        x = min(across(end), WIDTH - _RIGHT) + 6
        drawn.append(f'<text x="{x:.1f}" y="{y + 14}" font-size="12">{said}</text>')
    return svg_of(WIDTH, _TOP + _ROW * max(1, len(shown)) + 10, "".join(drawn))


def _of_interest(rows: list[Bounced]) -> list[Bounced]:
    if len(rows) <= DRAWN_AT_MOST:
        return rows
    asked = [r for r in rows if r.asked_ms is not None]
    pressing = [r for r in asked if r.stand is not Stand.BACK][-DRAWN_AT_MOST:]
    room = DRAWN_AT_MOST - len(pressing)
    chosen = [*pressing, *[r for r in asked if r.stand is Stand.BACK][-room:]] if room else pressing
    room = DRAWN_AT_MOST - len(chosen)
    names = {r.processor for r in chosen} | {
        r.processor for r in [r for r in rows if r.asked_ms is None][:room]
    }
    return [r for r in rows if r.processor in names]


def _title(rows: list[Bounced], shown: list[Bounced]) -> str:
    back = sum(r.stand is Stand.BACK for r in rows)
    bad = sum(r.stand in _BAD for r in rows)
    flying = sum(r.stand in UNDER_WAY for r in rows)
    parts = [f"{back} of {len(rows)} back", f"{flying} in flight" if flying else ""]
    parts += [f"{bad} failed" if bad else "", _left_out(len(rows) - len(shown))]
    return ", ".join(part for part in parts if part)


def _left_out(number: int) -> str:
    return f"{number} not drawn" if number else ""


def _bar(kind: str, begin: float, end: float, y: int, high: int) -> str:
    wide = max(2.0, end - begin)
    return f'<rect class="{kind}" x="{begin:.1f}" y="{y}" width="{wide:.1f}" height="{high}"/>'
