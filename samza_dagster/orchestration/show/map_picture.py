"""The map of hosts and containers as a picture, with the same as text below it. Pure.

The UI shows Markdown in a dialog that is as wide as what it holds, up to four fifths of the
window. A picture without a size of its own is as wide as the dialog: with a text below it
that is longer than a line, the whole map is seen on any screen. A dialog that is higher than
the window doesn't open at its beginning: where a table has each container, the text is cut.
Text is what a search in the page finds: what is written inside a picture isn't.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from html import escape
from itertools import accumulate, takewhile

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.show.pictures import MOST_BYTES, picture, svg_of
from samza_dagster.orchestration.text import natural

WIDTH = 1920
IN_PLACE = 800
"""Pixels: the room of a map that is seen without a click."""
FONT, LINE = 12, 16
SCALED_FROM = 1_000
"""Pixels: a map that is wider scales with the dialog, any other one fits into it."""
_GLYPH = 0.62 * FONT  # width of a character
_MARGIN = 10
_TOP = 72
_LEGEND = ("active", "standby", "on its way", "down")
_LEAST_WIDTH = 640
_LEAST_CAPTION = 400  # characters: wider than a dialog on any screen
_MOST_CAPTION = 1_200  # seven lines in a window of 1920 × 1080: more is higher than the window


def shown_map(
    cells: Sequence[HostRow],
    title: str = "",
    moved: Collection[str] = (),
    *,
    has_table: bool = False,
) -> str:
    """Markdown: the picture, and below it each host with its containers as text.

    Of many hosts the first alone, when the page has a table of all of them beside it.
    """
    hosts = [
        f"{cell.host}: {', '.join(p for p, _, _ in cell.cells) or '-'}"
        for cell in sorted(cells, key=lambda h: natural(h.host))
    ]
    caption = _cut(hosts) if has_table else " · ".join(hosts)
    scales = len(caption) >= _LEAST_CAPTION
    drawn = picture(map_svg(cells, title, moved, scales=scales), title or "hosts and containers")
    return f"{drawn}\n\n{caption}"


def _cut(hosts: Sequence[str]) -> str:
    whole = " · ".join(hosts)
    if len(whole) <= _MOST_CAPTION:
        return whole
    ends = list(accumulate(len(host) + 3 for host in hosts))
    named = max(1, sum(end <= _MOST_CAPTION for end in ends))
    rest = f"and {len(hosts) - named} more hosts: the table of hosts on this page has them all"
    return " · ".join([*hosts[:named], rest])


def shown_maps(
    before: Sequence[HostRow], after: Sequence[HostRow], most_bytes: int = MOST_BYTES
) -> str:
    """Return the map before and after as Markdown; containers that changed hosts are outlined.

    Only the one after where both have more than `most_bytes`, as JSON.
    """
    was = {ident: cell.host for cell in before for ident, _, _ in cell.cells}
    now = {ident: cell.host for cell in after for ident, _, _ in cell.cells}
    moved = {ident for ident, host in now.items() if was.get(ident) != host}
    after_only = shown_map(after, "after:", moved)
    both = f"{shown_map(before, 'before:')}\n\n{after_only}"
    return both if len(json.dumps(both)) < most_bytes else after_only


def map_svg(
    hosts: Sequence[HostRow],
    title: str = "",
    moved: Collection[str] = (),
    *,
    scales: bool = True,
    room: int = WIDTH,
) -> str:
    """Draw all hosts, also those without a container, and all containers, each id a text of its own.

    It is at most `room` wide and as high as it takes. The domain that all hosts are in is told once.
    Those that `moved` are outlined.
    """
    domain = shared_domain([cell.host for cell in hosts])
    named = [replace(cell, host=cell.host.removesuffix(domain)) for cell in hosts]
    cells = sorted(named, key=lambda h: natural(h.host))
    longest = max((len(p) for c in cells for p, _, _ in c.cells), default=1)
    name = max((len(_named(c)) for c in cells), default=1)
    most = max((len(c.containers) for c in cells), default=1)
    wide = math.ceil(longest * _GLYPH) + 6
    # The panel of the host that has most is about as wide as high.
    square = wide * math.ceil(math.sqrt(most * LINE / wide)) + 14
    panel = max(math.ceil(name * _GLYPH) + 14, wide + 14, min(square, room - 2 * _MARGIN))
    per_row = max(1, (panel - 10) // wide)
    columns = max(1, min(len(cells), (room - 2 * _MARGIN) // panel))
    across = max(_LEAST_WIDTH, columns * panel + 2 * _MARGIN)
    boxes: dict[str, list[str]] = {"a": [], "s": [], "o": [], "d": [], "c": []}
    panels: list[str] = []
    texts: list[str] = []
    x, y, in_row, row_height = _MARGIN, _TOP, 0, 0
    for cell in cells:
        if in_row == columns:
            x, y, in_row, row_height = _MARGIN, y + row_height, 0, 0
        high = LINE * (1 + math.ceil(len(cell.containers) / per_row)) + 8
        row_height = max(row_height, high)
        kind = "lost" if cell.state == "lost" else "p"
        panels.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{panel - 4}" height="{high - 4}"/>'
        )
        texts.append(
            f'<text x="{x + 4}" y="{y + FONT + 1}" font-weight="bold">{escape(_named(cell))}</text>'
        )
        for number, (processor, active, state) in enumerate(cell.cells):
            left = x + 4 + (number % per_row) * wide
            top = y + LINE + (number // per_row) * LINE
            box = f"M{left} {top}h{wide - 2}v{LINE - 2}h-{wide - 2}z"
            boxes[_box(active, state)].append(box)
            if processor in moved:
                boxes["c"].append(box)
            texts.append(f'<text x="{left + 2}" y="{top + FONT}">{escape(processor)}</text>')
        x, in_row = x + panel, in_row + 1
    paths = "".join(f'<path class="{k}" d="{"".join(d)}"/>' for k, d in boxes.items() if d)
    return svg_of(
        across,
        y + row_height + _MARGIN,
        f"{_head(cells, title, domain, bool(boxes['c']))}{''.join(panels)}{paths}"
        f'<g font-size="{FONT}">{"".join(texts)}</g>',
        scales=scales and across >= SCALED_FROM,
    )


def shared_domain(names: Sequence[str]) -> str:
    """Return the common end of all names, from a dot on; empty for addresses and a single host.

    Of `a-1.dc1.example.com` and `a-2.dc2.example.com` it is `.example.com`.
    """
    if len(names) < 2:
        return ""
    ends = [name.split(".")[:0:-1] for name in names]
    shared = [one[0] for one in takewhile(lambda one: len(set(one)) == 1, zip(*ends, strict=False))]
    domain = "".join(f".{label}" for label in reversed(shared))
    return domain if any(sign.isalpha() for sign in domain) else ""


def _named(cell: HostRow) -> str:
    plain = cell.state in ("alive", "last-seen", "unknown")
    return cell.host if plain else f"{cell.host} {cell.state}"


def _box(active: bool, state: str) -> str:
    if state in ("running", "last-seen"):
        return "a" if active else "s"
    return "o" if state in ("starting", "reserved", "requesting", "stopping") else "d"


def _head(cells: Sequence[HostRow], title: str, domain: str, moved: bool) -> str:
    count, taken = sum(len(c.containers) for c in cells), sum(bool(c.containers) for c in cells)
    of = "" if taken == len(cells) else f"{taken} of "
    caption = f"{title} {count} container{'s' * (count != 1)} on {of}{len(cells)} host{'s' * (len(cells) != 1)}"
    caption += f" in {domain}" if domain else ""
    keys = [*zip("asod", _LEGEND, strict=True), *([("c", "moved")] if moved else [])]
    drawn = [f'<text x="{_MARGIN}" y="26" font-size="18">{escape(caption.strip())}</text>']
    x = _MARGIN + 1
    for kind, text in keys:
        drawn.append(
            f'<rect class="{kind}" x="{x}" y="40" width="20" height="18"/>'
            f'<text x="{x + 27}" y="55" font-size="15">{text}</text>'
        )
        x += 51 + math.ceil(len(text) * _GLYPH * 15 / FONT)
    return "".join(drawn)
