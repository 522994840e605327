"""What was measured, to look at: table and bars for a terminal, and a plot in SVG."""

from __future__ import annotations

import math
from html import escape
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.downtime_judgement import COLD, Results, summary
from samza_dagster.orchestration.show.pictures import svg_of

BAR = 30
WIDTH = 130
"""Columns, where a terminal doesn't say how many it has: the whole table with its bars."""
_WIDE, _HIGH, _LEFT, _TOP, _BOTTOM, _RIGHT = 960, 420, 90, 60, 50, 30


def console(*, stderr: bool = True) -> Console:
    """Wide enough for the tables of results."""
    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=WIDTH)


def show(results: Results, slopes: dict[str, dict[str, float]], on: Console) -> None:
    """The table with bars, and the slopes."""
    table = Table(title="downtime of an active")
    for column in ("state MB", "how", "n", "p50 ms", "p95 ms", "max ms"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("p50 beside the longest one", no_wrap=True, min_width=BAR)
    table.add_column("cold / this", justify="right", no_wrap=True)
    taken = _downtimes(results)
    longest = max(median(values) for kinds in taken.values() for values in kinds.values())
    for size, kinds in taken.items():
        for kind, values in kinds.items():
            row = summary(values)
            bar = "█" * max(1, round(BAR * row["p50_ms"] / longest))
            ratio = f"{median(kinds[COLD]) / row['p50_ms']:.1f}" if COLD in kinds else "-"
            numbers = [f"{row[each]:.0f}" for each in ("n", "p50_ms", "p95_ms", "max_ms")]
            table.add_row(f"{size:g}", kind, *numbers, bar, ratio)
    on.print(table)
    for kind, found in slopes.items():
        on.print(
            f"{kind}: {found['ms_per_mb']:+.1f} ms a MB of state, {found['from']:+.1f} to {found['to']:+.1f}"
        )


def downtime_svg(results: Results) -> str:
    """Each move as a dot over its size of state, and a line through the medians of each kind.

    Sizes are spaced by their logarithms. Needs one move at least.
    """
    taken = _downtimes(results)
    sizes = sorted(taken)
    kinds = list(dict.fromkeys(kind for each in taken.values() for kind in each))
    most = max(value for each in taken.values() for values in each.values() for value in values)
    span = math.log(sizes[-1] / sizes[0]) or 1.0

    def spot(size: float, value: float, kind: str) -> tuple[float, float]:
        aside = (kinds.index(kind) - (len(kinds) - 1) / 2) * 9  # else all lie on one another
        share = math.log(size / sizes[0]) / span if len(sizes) > 1 else 0.5
        x = _LEFT + 40 + share * (_WIDE - _LEFT - _RIGHT - 80) + aside
        return x, _TOP + (1 - value / most) * (_HIGH - _TOP - _BOTTOM)

    drawn = ['<text x="20" y="26" font-size="16">downtime of an active, s</text>']
    for part in (0.0, 0.5, 1.0):
        y = spot(sizes[0], part * most, kinds[0])[1]
        drawn.append(f'<path class="x" d="M{_LEFT} {y:.0f}H{_WIDE - _RIGHT}"/>')
        drawn.append(f'<text x="20" y="{y + 4:.0f}" font-size="12">{part * most / 1000:.1f}</text>')
    for size in sizes:
        x = spot(size, 0, kinds[0])[0] + (len(kinds) - 1) / 2 * 9
        drawn.append(
            f'<text x="{x:.0f}" y="{_HIGH - 16}" font-size="12" text-anchor="middle">{size:g} MB</text>'
        )
    for number, kind in enumerate(kinds):
        name, mine = f"l{number % 5}", {s: taken[s][kind] for s in sizes if kind in taken[s]}
        dots = "".join(
            f"M{x:.1f} {y:.1f}h0"
            for size, values in mine.items()
            for x, y in (spot(size, value, kind) for value in values)
        )
        middles = [spot(size, median(values), kind) for size, values in mine.items()]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in middles)
        crosses = "".join(f"M{x - 5:.1f} {y:.1f}h10" for x, y in middles)
        left = _LEFT + number * 170
        drawn.append(
            f'<path class="{name}" stroke-width="4" stroke-linecap="round" opacity="0.4" d="{dots}"/>'
            f'<polyline class="{name}" fill="none" stroke-width="2" points="{points}"/>'
            f'<path class="{name}" stroke-width="4" d="{crosses}"/>'
            f'<path class="{name}" stroke-width="3" d="M{left} 41h22"/>'
            f'<text x="{left + 28}" y="46" font-size="13">{escape(kind)}</text>'
        )
    return svg_of(_WIDE, _HIGH, "".join(drawn))


def _downtimes(results: Results) -> dict[float, dict[str, list[int]]]:
    """ms by size and kind, of those that have some."""
    found = {
        size: {kind: [move.downtime_ms for move in moves] for kind, moves in kinds.items() if moves}
        for size, kinds in results.items()
    }
    return {size: kinds for size, kinds in found.items() if kinds}
