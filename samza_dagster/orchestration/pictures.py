"""Pictures as SVG text: the map of hosts and containers, lag over time, a request's timeline. Pure.

The UI shows an image of a `data:` address in Markdown. An image can't know the page's theme,
so each has a ground of its own, and follows the reader's colour scheme with ground and text
together: it can be read on a light page and on a dark one.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from samza_dagster.orchestration.moves import HostRow

WIDTH, HEIGHT = 1920, 1080
MOST_BYTES = 300_000
"""Of one metadata entry."""
LARGEST_FONT, SMALLEST_FONT = 18, 6
_GLYPH = 0.62  # width of a character, in font sizes
_MARGIN = 10
_TOP = 44
_STYLE = (
    "<style>text{font-family:ui-monospace,Menlo,Consolas,monospace;fill:#1b2430}"
    ".g{fill:#fff}.p{fill:#f3f5f8;stroke:#c3cad4}.lost{fill:#fbe3e4;stroke:#c4373f}"
    ".a{fill:#bcd7ff}.s{fill:#c9ecd2}.o{fill:#ffdf9e}.d{fill:#f6a9ad}"
    ".l0{stroke:#1f6feb}.l1{stroke:#1a7f4b}.l2{stroke:#b5530b}.l3{stroke:#8a3ffc}.l4{stroke:#c4373f}"
    ".x{stroke:#c3cad4}.m{fill:#5b6777}"
    "@media(prefers-color-scheme:dark){text{fill:#e6ebf2}.g{fill:#12161c}"
    ".p{fill:#1b222c;stroke:#3a4656}.lost{fill:#3b1d20;stroke:#f2777d}"
    ".a{fill:#1d3f70}.s{fill:#1f4a30}.o{fill:#5c4412}.d{fill:#6b2529}"
    ".l0{stroke:#6cb0ff}.l1{stroke:#5fd38d}.l2{stroke:#ffab5e}.l3{stroke:#c5a3ff}.l4{stroke:#f2777d}"
    ".x{stroke:#3a4656}.m{fill:#9aa7b8}}</style>"
)


@dataclass(frozen=True, slots=True)
class HostCell:
    """A host on the map: its containers as (processor id, active, state)."""

    host: str
    state: str
    containers: tuple[tuple[str, bool, str], ...]


def cells_of(rows: Iterable[HostRow]) -> list[HostCell]:
    """The map of a plan or a run as the picture takes it."""
    cells: list[HostCell] = []
    for row in rows:
        words = [(*text.split(" "), "", "")[:3] for text in row.containers]
        containers = tuple((ident, mode == "active", state) for ident, mode, state in words)
        cells.append(HostCell(row.host, row.state, containers))
    return cells


def picture(svg: str, alt: str = "picture") -> str:
    """Markdown that shows it."""
    data = base64.b64encode(svg.encode()).decode("ascii")
    return f"![{alt}](data:image/svg+xml;base64,{data})"


def map_svg(hosts: Sequence[HostCell], title: str = "") -> str:
    """All hosts and containers in one view of 1920 × 1080; each id is a text of its own.

    The letters are as large as the most that fits; more than fits at the smallest makes the
    picture higher, which a viewer scales.
    """
    cells = sorted(hosts, key=lambda h: _natural(h.host))
    fit = _fit(cells)
    boxes: dict[str, list[str]] = {"a": [], "s": [], "o": [], "d": []}
    panels: list[str] = []
    texts: list[str] = []
    x, y, in_row, row_height = _MARGIN, _TOP, 0, 0
    for cell in cells:
        if in_row == fit.columns:
            x, y, in_row, row_height = _MARGIN, y + row_height, 0, 0
        high = fit.panel_height(len(cell.containers))
        row_height = max(row_height, high)
        kind = "lost" if cell.state == "lost" else "p"
        panels.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{fit.panel - 4}" height="{high - 4}"/>'
        )
        name = (
            cell.host
            if cell.state in ("alive", "last-seen", "unknown")
            else f"{cell.host} {cell.state}"
        )
        texts.append(
            f'<text x="{x + 4}" y="{y + fit.font + 1}" font-weight="bold">{escape(name)}</text>'
        )
        for number, (processor, active, state) in enumerate(cell.containers):
            left = x + 4 + (number % fit.per_row) * fit.wide
            top = y + fit.line + (number // fit.per_row) * fit.line
            boxes[_box(active, state)].append(
                f"M{left} {top}h{fit.wide - 2}v{fit.line - 2}h-{fit.wide - 2}z"
            )
            texts.append(f'<text x="{left + 2}" y="{top + fit.font}">{escape(processor)}</text>')
        x, in_row = x + fit.panel, in_row + 1
    height = max(HEIGHT, y + row_height + _MARGIN)
    count = sum(len(c.containers) for c in cells)
    legend = (
        f'<text x="{_MARGIN}" y="28" font-size="18">{escape(title)} {count} containers on'
        f" {len(cells)} hosts</text>" + _legend()
    )
    paths = "".join(f'<path class="{k}" d="{"".join(d)}"/>' for k, d in boxes.items() if d)
    return _svg(
        WIDTH,
        height,
        f'{legend}{"".join(panels)}{paths}<g font-size="{fit.font}">{"".join(texts)}</g>',
    )


def lag_svg(
    series: Mapping[str, Sequence[tuple[int, float]]],
    *,
    title: str = "records behind",
    limit: float | None = None,
) -> str:
    """Lines over time, (ms since the epoch, value) each; `limit` is drawn across."""
    wide, high, left, top, bottom = 960, 360, 90, 44, 40
    points = [p for line in series.values() for p in line]
    if not points:
        return _svg(
            wide, high, f'<text x="20" y="60" font-size="16">{escape(title)}: no sample</text>'
        )
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    most = max([value for _, value in points] + ([limit] if limit is not None else []) + [1])

    def spot(at: float, value: float) -> str:
        x = left + (at - first) / max(1, last - first) * (wide - left - 20)
        y = top + (1 - value / most) * (high - top - bottom)
        return f"{x:.1f},{y:.1f}"

    drawn = [f'<text x="20" y="26" font-size="16">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = top + (1 - share) * (high - top - bottom)
        drawn.append(f'<path class="x" d="M{left} {y:.0f}H{wide - 20}"/>')
        drawn.append(f'<text x="8" y="{y + 4:.0f}" font-size="12">{_short(most * share)}</text>')
    drawn.append(
        f'<text x="{left}" y="{high - 14}" font-size="12">0 s</text>'
        f'<text x="{wide - 90}" y="{high - 14}" font-size="12">{(last - first) / 1000:,.0f} s</text>'
    )
    if limit is not None:
        ends = f"{spot(first, limit)} {spot(last, limit)}"
        drawn.append(f'<polyline class="l4" fill="none" stroke-dasharray="6 4" points="{ends}"/>')
    for number, (name, line) in enumerate(series.items()):
        ends = " ".join(spot(at, value) for at, value in sorted(line))
        kind = f"l{number % 5}"
        drawn.append(
            f'<polyline class="{kind}" fill="none" stroke-width="2" points="{ends}"/>'
            f'<path class="{kind}" stroke-width="3" d="M{260 + number * 200} 21h22"/>'
            f'<text x="{288 + number * 200}" y="26" font-size="13">{escape(name[:20])}</text>'
        )
    return _svg(wide, high, "".join(drawn))


def timeline_svg(moments: Sequence[tuple[str, str, int]]) -> str:
    """A request's statuses, (stage, status, ms since the epoch): a bar until the next one."""
    wide, row = 960, 26
    high = 50 + row * max(1, len(moments))
    if not moments:
        return _svg(wide, high, '<text x="20" y="40" font-size="16">no status was seen</text>')
    first, last = moments[0][2], max(at for _, _, at in moments)
    span = max(1, last - first)
    drawn = [f'<text x="20" y="26" font-size="16">{span / 1000:,.2f} s from first to last</text>']
    for number, (stage, status, at) in enumerate(moments):
        until = moments[number + 1][2] if number + 1 < len(moments) else at
        x = 380 + (at - first) / span * 540
        width = max(4.0, (until - at) / span * 540)
        kind = {"SUCCEEDED": "s", "FAILED": "d", "BAD_REQUEST": "d"}.get(status, "a")
        y = 40 + number * row
        drawn.append(
            f'<text x="20" y="{y + 16}" font-size="13">{escape(stage or "-")} {escape(status)}</text>'
            f'<text x="300" y="{y + 16}" font-size="13">+{(at - first) / 1000:,.2f}</text>'
            f'<rect class="{kind}" x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{row - 6}"/>'
        )
    return _svg(wide, high, "".join(drawn))


@dataclass(frozen=True, slots=True)
class _Fit:
    font: int
    columns: int
    panel: int
    wide: int

    @property
    def line(self) -> int:
        return self.font + 4

    @property
    def per_row(self) -> int:
        return max(1, (self.panel - 10) // self.wide)

    def panel_height(self, containers: int) -> int:
        return self.line * (1 + math.ceil(containers / self.per_row)) + 8


def _fit(cells: Sequence[HostCell]) -> _Fit:
    longest = max((len(p) for c in cells for p, _, _ in c.containers), default=1)
    name = max((len(c.host) + 5 * (c.state == "lost") for c in cells), default=1)
    room = WIDTH - 2 * _MARGIN
    best: _Fit | None = None
    for font in range(LARGEST_FONT, SMALLEST_FONT - 1, -1):
        wide = math.ceil(longest * font * _GLYPH) + 6
        least = max(math.ceil(name * font * _GLYPH) + 12, wide + 14)
        for columns in range(1, max(2, min(len(cells), room // least) + 1)):
            fit = _Fit(font, columns, room // columns, wide)
            if best is None or _height(fit, cells) < _height(best, cells):
                best = fit
            if _height(fit, cells) <= HEIGHT:
                return fit
    assert best is not None
    return best


def _height(fit: _Fit, cells: Sequence[HostCell]) -> int:
    high = _TOP + _MARGIN
    for begin in range(0, len(cells), fit.columns):
        row = cells[begin : begin + fit.columns]
        high += max(fit.panel_height(len(c.containers)) for c in row)
    return high


def _natural(name: str) -> list[tuple[int, int, str]]:
    """host-2 before host-10."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"([0-9]+)", name) if p]


def _box(active: bool, state: str) -> str:
    if state in ("running", "last-seen"):
        return "a" if active else "s"
    return "o" if state in ("starting", "reserved", "requesting", "stopping") else "d"


def _legend() -> str:
    told = (("a", "active"), ("s", "standby"), ("o", "on its way"), ("d", "down"))
    return "".join(
        f'<rect class="{kind}" x="{1180 + n * 180}" y="12" width="22" height="20"/>'
        f'<text x="{1208 + n * 180}" y="28" font-size="16">{text}</text>'
        for n, (kind, text) in enumerate(told)
    )


def _short(value: float) -> str:
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= bound:
            return f"{value / (1e3 if unit == 'k' else bound):,.4g}{unit}"
    return f"{value:,.4g}"


def _svg(wide: int, high: int, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
        f' height="{high}">{_STYLE}<rect class="g" width="{wide}" height="{high}"/>{inside}</svg>'
    )
