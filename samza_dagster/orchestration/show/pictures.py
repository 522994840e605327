"""Pictures as SVG text: lag over time; what all pictures share. Pure.

The UI shows an image of a `data:` address in Markdown. An image can't know the page's theme,
so each has a ground of its own, and follows the reader's colour scheme with ground and text
together: it can be read on a light page and on a dark one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from samza_dagster.orchestration.text import clock, in_words

MOST_BYTES = 300_000
"""Of one metadata entry."""
WIDTH = 800
"""Pixels: what the page of an asset has for a picture beside the names of its metadata."""
_LAG = "records behind"
_DOTTED = 60  # samples: one alone draws no line
_STYLE = (
    "<style>text{font-family:ui-monospace,Menlo,Consolas,monospace;fill:#1b2430}"
    ".g{fill:#fff}.p{fill:#f3f5f8;stroke:#c3cad4}.lost{fill:#fbe3e4;stroke:#c4373f}"
    ".a{fill:#bcd7ff}.s{fill:#c9ecd2}.o{fill:#ffdf9e}.d{fill:#f6a9ad}"
    ".l0{stroke:#1f6feb}.l1{stroke:#1a7f4b}.l2{stroke:#b5530b}.l3{stroke:#8a3ffc}.l4{stroke:#c4373f}"
    ".x{stroke:#c3cad4}.m{fill:#5b6777}.c{fill:none;stroke:#8a3ffc;stroke-width:3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6ebf2}.g{fill:#12161c}"
    ".p{fill:#1b222c;stroke:#3a4656}.lost{fill:#3b1d20;stroke:#f2777d}"
    ".a{fill:#1d3f70}.s{fill:#1f4a30}.o{fill:#5c4412}.d{fill:#6b2529}"
    ".l0{stroke:#6cb0ff}.l1{stroke:#5fd38d}.l2{stroke:#ffab5e}.l3{stroke:#c5a3ff}.l4{stroke:#f2777d}"
    ".x{stroke:#3a4656}.m{fill:#9aa7b8}.c{stroke:#c5a3ff}}</style>"
)


def picture(svg: str, alt: str = "picture") -> str:
    """Markdown that shows it."""
    data = base64.b64encode(svg.encode()).decode("ascii")
    return f"![{alt}](data:image/svg+xml;base64,{data})"


def lag_svg(
    series: Mapping[str, Sequence[tuple[int, float]]], *, limit: float | None = None
) -> str:
    """Records behind over time, (ms since the epoch, records) of each; `limit` is drawn across."""
    wide, high, left, top, bottom = WIDTH, 300, 90, 44, 40
    points = [p for line in series.values() for p in line]
    if not points:
        return svg_of(wide, high, f'<text x="20" y="60" font-size="16">{_LAG}: no sample</text>')
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    most = max([value for _, value in points] + ([limit] if limit is not None else []) + [1])

    def spot(at: float, value: float) -> str:
        x = left + (at - first) / max(1, last - first) * (wide - left - 20)
        y = top + (1 - value / most) * (high - top - bottom)
        return f"{x:.1f},{y:.1f}"

    drawn = [f'<text x="20" y="26" font-size="16">{_LAG}</text>']
    for share in (0.0, 0.5, 1.0):
        y = top + (1 - share) * (high - top - bottom)
        drawn.append(f'<path class="x" d="M{left} {y:.0f}H{wide - 20}"/>')
        drawn.append(f'<text x="8" y="{y + 4:.0f}" font-size="12">{_short(most * share)}</text>')
    drawn.append(
        f'<text x="{left}" y="{high - 14}" font-size="12">{in_words((last - first) / 1000)} before</text>'
        f'<text x="{wide - 20}" y="{high - 14}" font-size="12" text-anchor="end">{clock(last)} UTC</text>'
    )
    if limit is not None:
        ends = f"{spot(first, limit)} {spot(last, limit)}"
        x, _, y = spot(last, limit).partition(",")
        drawn.append(
            f'<polyline class="l4" fill="none" stroke-dasharray="6 4" points="{ends}"/>'
            f'<text x="{x}" y="{float(y) + 16:.1f}" font-size="12" text-anchor="end">limit'
            f" {_short(limit)}</text>"
        )
    for number, (name, line) in enumerate(series.items()):
        ends = " ".join(spot(at, value) for at, value in sorted(line))
        kind = f"l{number % 5}"
        dots = "".join(f"M{at}h0" for at in ends.split()) if len(line) <= _DOTTED else ""
        drawn.append(
            f'<polyline class="{kind}" fill="none" stroke-width="2" points="{ends}"/>'
            f'<path class="{kind}" stroke-width="7" stroke-linecap="round" d="{dots}"/>'
            f'<path class="{kind}" stroke-width="3" d="M{260 + number * 200} 21h22"/>'
            f'<text x="{288 + number * 200}" y="26" font-size="13">{escape(name[:20])}</text>'
        )
    return svg_of(wide, high, "".join(drawn))


def _short(value: float) -> str:
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= bound:
            return f"{value / (1e3 if unit == 'k' else bound):,.4g}{unit}"
    return f"{value:,.4g}"


def text(x: float, y: int, size: int, said: str, more: str = "") -> str:
    """What is `said` in a picture, with `more` attributes."""
    return f'<text x="{x:g}" y="{y}" font-size="{size}"{more}>{escape(said)}</text>'


def box(kind: str, x: float, y: float, wide: float, high: float) -> str:
    """A box of one of the classes of `_STYLE`."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:.4g}" height="{high:g}"/>'


def legend(kinds: Sequence[tuple[str, str]], left: int, step: int) -> str:
    """Each class beside what it means, a `step` apart."""
    drawn: list[str] = []
    for number, (kind, what) in enumerate(kinds):
        x = left + number * step
        drawn += [box(kind, x, 40, 16, 14), text(x + 22, 52, 12, what)]
    return "".join(drawn)


def svg_of(wide: int, high: int, inside: str, *, scales: bool = False) -> str:
    """What is drawn `inside`, with its ground; one that `scales` is as wide as there is room."""
    size = "" if scales else f' width="{wide}" height="{high}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"{size}>{_STYLE}'
        f'<rect class="g" width="{wide}" height="{high}"/>{inside}</svg>'
    )
