"""Work over time as a picture: a line for each container, or for each status of a request. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samza_dagster.orchestration.show.pictures import WIDTH, box, legend, svg_of, text
from samza_dagster.orchestration.text import clock, in_words, natural

DRAWN_AT_MOST = 60
"""Lines; of more containers, those that need somebody, then those that were begun last."""
_ROW, _TOP, _RIGHT = 20, 74, 110
_LEAST_NAME, _MOST_NAME, _GLYPH = 12, 30, 8  # characters of a name; pixels of one
DOWN = ("d", "down or failed")
_KIND = {"SUCCEEDED": "s", "FAILED": "d", "BAD_REQUEST": "d"}


@dataclass(frozen=True)
class Bar:
    """A span of a line in ms since the epoch; without an end it is drawn to the last time known."""

    kind: str
    begin_ms: int
    end_ms: int | None
    is_inner: bool = False


@dataclass(frozen=True)
class TimelineRow:
    """A container or a status: its name, the text beside it, its bars, and the text behind them."""

    name: str
    beside: str = ""
    bars: Sequence[Bar] = ()
    said: str = ""
    is_pressing: bool = False

    @property
    def begin_ms(self) -> int | None:
        """When it was begun; None: it wasn't."""
        return min((bar.begin_ms for bar in self.bars), default=None)


def timeline_svg(moments: Sequence[tuple[str, str, int]]) -> str:
    """A request's statuses, (stage, status, ms since the epoch): a bar until the next one."""
    if not moments:
        return lines_svg("no status was seen", (), ())
    times = [at for _, _, at in moments]
    lines = [
        TimelineRow(
            stage or "-",
            status,
            [Bar(_KIND.get(status, "a"), at, end)],
            f"+{(at - times[0]) / 1000:,.2f}",
        )
        for (stage, status, at), end in zip(moments, [*times[1:], times[-1]], strict=True)
    ]
    title = f"{(max(times) - times[0]) / 1000:,.2f} s from first to last"
    return lines_svg(title, lines, (("a", "under way"), ("s", "succeeded"), ("d", "failed")))


def lines_svg(title: str, lines: Sequence[TimelineRow], kinds: Sequence[tuple[str, str]]) -> str:
    """The picture; `kinds` are the classes of bars with what each means."""
    shown = _of_interest(lines)
    longest = min(_MOST_NAME, max([_LEAST_NAME, *(len(line.name) for line in shown)]))
    beside = 34 + _GLYPH * longest
    left = beside + 130
    bars = [bar for line in shown for bar in line.bars]
    times = [at for bar in bars for at in (bar.begin_ms, bar.end_ms) if at]
    first, last = (min(times), max(times)) if times else (0, 0)
    span = max(1, last - first)

    def across(at_ms: int) -> float:
        return left + (at_ms - first) / span * (WIDTH - left - _RIGHT)

    def end_of(bar: Bar) -> int:
        return last if bar.end_ms is None else bar.end_ms

    left_out = len(lines) - len(shown)
    title += f", {left_out} not drawn" if left_out else ""
    drawn = [text(20, 26, 16, title), legend(kinds, 20, 140)]
    if times:
        took = f"from {clock(first)} UTC, {in_words(span / 1000)}"
        drawn.append(text(WIDTH - 20, 52, 12, took, ' text-anchor="end"'))
    for number, line in enumerate(shown):
        y = _TOP + number * _ROW
        drawn.append(text(20, y + 14, 13, line.name[:longest]))
        drawn.append(text(beside, y + 14, 12, line.beside[:16]))
        for bar in line.bars:
            inset, high = (5, _ROW - 11) if bar.is_inner else (2, _ROW - 5)
            wide = max(2.0, across(end_of(bar)) - across(bar.begin_ms))
            drawn.append(box(bar.kind, across(bar.begin_ms), y + inset, wide, high))
        ends = [across(end_of(bar)) for bar in line.bars]
        drawn.append(text(round(max(ends) + 6, 1) if ends else left, y + 14, 12, line.said))
    return svg_of(WIDTH, _TOP + _ROW * max(1, len(shown)) + 10, "".join(drawn))


def _of_interest(lines: Sequence[TimelineRow]) -> list[TimelineRow]:
    """Return the lines in the order in which they began; those that didn't begin come last."""
    in_order = sorted(
        lines, key=lambda one: (one.begin_ms is None, one.begin_ms or 0, natural(one.name))
    )
    by_interest = sorted(in_order, key=lambda one: (not one.is_pressing, -(one.begin_ms or 0)))
    chosen = {id(one) for one in by_interest[:DRAWN_AT_MOST]}
    return [one for one in in_order if id(one) in chosen]
