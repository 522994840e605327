"""Work on several containers as a picture: a line for each, its steps as bars over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from samza_dagster.orchestration.map_picture import natural
from samza_dagster.orchestration.pictures import in_words, svg_of
from samza_dagster.orchestration.units.order import Kind, State
from samza_dagster.orchestration.units.progress import Progress

DRAWN_AT_MOST = 60
"""Lines; of more containers, those that failed, then those that began last."""
WIDTH = 960
_ROW, _TOP, _LEFT, _RIGHT = 20, 74, 200, 110
_KINDS = (("a", "requested"), ("o", "waited for"), ("d", "down or failed"))
_WAITS = (Kind.WAIT_WARM, Kind.WAIT_PROCESSING, Kind.WAIT_REPORT)


def units_svg(progress: Sequence[Progress]) -> str:
    """Bars by the coordinator's clock, where it told; who wasn't begun has a line without one."""
    done = sum(one.state is State.DONE for one in progress)
    bad = sum(one.state is State.FAILED for one in progress)
    shown = _of_interest(progress)
    times = [at for one in shown for span in one.spans for at in (span.begin_ms, span.end_ms)]
    first, last = (min(times), max(times)) if times else (0, 0)

    def across(at_ms: int) -> float:
        return _LEFT + (at_ms - first) / max(1, last - first) * (WIDTH - _LEFT - _RIGHT)

    def bar(kind: str, begin_ms: int, end_ms: int, y: int, high: int) -> str:
        wide = max(2.0, across(end_ms) - across(begin_ms))
        return f'<rect class="{kind}" x="{across(begin_ms):.1f}" y="{y}" width="{wide:.1f}" height="{high}"/>'

    title = f"{done} of {len(progress)} done" + (f", {bad} failed" if bad else "")
    title += f", {len(progress) - len(shown)} not drawn" if len(shown) < len(progress) else ""
    drawn = [
        f'<text x="20" y="26" font-size="16">{escape(title)}, {in_words((last - first) / 1000)}</text>'
    ]
    for number, (kind, text) in enumerate(_KINDS):
        drawn.append(
            f'<rect class="{kind}" x="{20 + number * 140}" y="40" width="16" height="14"/>'
            f'<text x="{42 + number * 140}" y="52" font-size="13">{text}</text>'
        )
    for number, one in enumerate(shown):
        y = _TOP + number * _ROW
        said = f"{one.unit.processor[:12]} {one.state}"
        drawn.append(f'<text x="20" y="{y + 14}" font-size="13">{escape(said)}</text>')
        for span in one.spans:
            kind = "d" if span.failed else "o" if span.kind in _WAITS else "a"
            drawn.append(bar(kind, span.begin_ms, span.end_ms, y + 2, _ROW - 5))
        if one.stopped_at_ms is not None and one.moved_at_ms is not None:
            drawn.append(bar("d", one.stopped_at_ms, one.moved_at_ms, y + 5, _ROW - 11))
        if one.down_s is not None:
            x = across(max(span.end_ms for span in one.spans)) + 6 if one.spans else _LEFT
            drawn.append(
                f'<text x="{x:.1f}" y="{y + 14}" font-size="12">{one.down_s:.1f} s down</text>'
            )
    return svg_of(WIDTH, _TOP + _ROW * max(1, len(shown)) + 10, "".join(drawn))


def _of_interest(progress: Sequence[Progress]) -> list[Progress]:
    def begun(one: Progress) -> int:
        return one.spans[0].begin_ms if one.spans else 0

    chosen = sorted(progress, key=lambda one: (one.state is not State.FAILED, -begun(one)))
    return sorted(
        chosen[:DRAWN_AT_MOST],
        key=lambda one: (not one.spans, begun(one), natural(one.unit.processor)),
    )
