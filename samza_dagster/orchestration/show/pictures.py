"""Pictures as SVG text: what all of them share. Pure.

The UI shows an image of a `data:` address in Markdown. An image can't know the page's theme,
so each has a ground of its own, and follows the reader's colour scheme with ground and text
together: it can be read on a light page and on a dark one.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

MOST_BYTES = 300_000
"""Of one metadata entry."""
WIDTH = 800
"""Pixels: what the page of an asset has for a picture beside the names of its metadata."""
_STYLE = (
    "<style>text{font-family:ui-monospace,Menlo,Consolas,monospace;fill:#1b2430}"
    ".g{fill:#fff}.p{fill:#f3f5f8;stroke:#c3cad4}.lost{fill:#fbe3e4;stroke:#c4373f}"
    ".a{fill:#bcd7ff}.s{fill:#c9ecd2}.o{fill:#ffdf9e}.d{fill:#f6a9ad}"
    ".c{fill:none;stroke:#8a3ffc;stroke-width:3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6ebf2}.g{fill:#12161c}"
    ".p{fill:#1b222c;stroke:#3a4656}.lost{fill:#3b1d20;stroke:#f2777d}"
    ".a{fill:#1d3f70}.s{fill:#1f4a30}.o{fill:#5c4412}.d{fill:#6b2529}"
    ".c{stroke:#c5a3ff}}</style>"
)


def picture(svg: str, alt: str = "picture") -> str:
    """Markdown that shows it."""
    data = base64.b64encode(svg.encode()).decode("ascii")
    return f"![{alt}](data:image/svg+xml;base64,{data})"


def text(x: float, y: int, size: int, said: str, more: str = "") -> str:
    """Return the text `said` in a picture, with `more` attributes."""
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
    """Return the SVG around `inside`, with its ground; with `scales` it is as wide as there is room."""
    size = "" if scales else f' width="{wide}" height="{high}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"{size}>{_STYLE}'
        f'<rect class="g" width="{wide}" height="{high}"/>{inside}</svg>'
    )
