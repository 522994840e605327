"""Pictures made of characters, for the log of a run. Pure.

The page of a run shows text and tables where they stand, and Markdown on a click alone. Of one
event it shows some twelve lines: each picture here has at most `LINES`.
"""

from __future__ import annotations

from collections.abc import Sequence

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.text import in_words, natural

LINES = 11
_BAR = 48  # characters
_NAME, _CELLS = 28, 60
_LEVELS = "▁▂▃▄▅▆▇█"


def plain_maps(before: Sequence[HostRow], after: Sequence[HostRow]) -> str:
    """Hosts and containers before and after: those that changed first, actives in brackets."""
    was, now = ({row.host: row for row in rows} for rows in (before, after))
    hosts = sorted({*was, *now}, key=natural)
    lines = [(host, _cells(was.get(host)), _cells(now.get(host))) for host in hosts]
    changed = sum(old != new for _, old, new in lines)
    lines.sort(key=lambda line: line[1] == line[2])
    shown = lines if len(lines) < LINES else lines[: LINES - 2]
    name = max([len(host) for host, _, _ in shown] + [4])
    wide = max([len(old) for _, old, _ in shown] + [6])
    drawn = [f"  {'host':<{name}}  {'before':<{wide}}  after        [active]  standby"]
    drawn += [
        f"{' ' if old == new else '→'} {host:<{name}}  {old:<{wide}}  {new}".rstrip()
        for host, old, new in shown
    ]
    if len(shown) < len(lines):
        drawn.append(f"  and {len(lines) - len(shown)} more hosts; {changed} changed in all")
    return "\n".join(drawn)


def plain_timeline(moments: Sequence[tuple[str, str, int]]) -> str:
    """A request's statuses, (stage, status, ms since the epoch): each a bar until the next one."""
    if not moments:
        return "no status was seen"
    times = [at for _, _, at in moments]
    first, span = times[0], max(1, max(times) - times[0])
    parts = [
        (stage or status, at, end)
        for (stage, status, at), end in zip(moments, [*times[1:], times[-1]], strict=True)
    ]
    merged: list[tuple[str, int, int]] = []
    for name, begin, end in parts:
        if merged and merged[-1][0] == name:
            merged[-1] = (name, merged[-1][1], end)
        else:
            merged.append((name, begin, end))
    shown = merged if len(merged) < LINES else [*merged[: LINES - 3], merged[-1]]
    wide = min(_NAME, max(len(name) for name, _, _ in shown))
    drawn = [f"{'':{wide}}  {in_words(span / 1000)} from first to last"]
    for name, begin, end in shown:
        left = round((begin - first) / span * (_BAR - 1))
        long = max(1, round((end - begin) / span * _BAR))
        bar = f"{' ' * left}{'█' * min(long, _BAR - left)}"
        drawn.append(f"{name[:wide]:<{wide}}  ▕{bar:<{_BAR}}▏ {(end - begin) / 1000:,.2f} s")
    if len(shown) < len(merged):
        drawn.append(f"{'':{wide}}  and {len(merged) - len(shown)} more statuses")
    return "\n".join(drawn)


def plain_lag(samples: Sequence[tuple[int, float]], limit: float | None = None) -> str:
    """Records behind over time, (ms, records), on one line: each column the most of its span."""
    if not samples:
        return "records behind: no sample"
    line = sorted(samples)
    first, last = line[0][0], line[-1][0]
    columns: list[float | None] = [None] * (_BAR if last > first else 1)
    for at, value in line:
        column = round((at - first) / max(1, last - first) * (len(columns) - 1))
        columns[column] = max(value, columns[column] or 0)
    most = max([value for _, value in line] + [1.0])
    drawn = "".join(
        " " if value is None else _LEVELS[round(value / most * (len(_LEVELS) - 1))]
        for value in columns
    )
    line_of_text = f"records behind ▕{drawn}▏ {line[0][1]:,.0f} → {line[-1][1]:,.0f}"
    line_of_text += f" in {in_words((last - first) / 1000)}, {most:,.0f} at most"
    return line_of_text if limit is None else f"{line_of_text}, limit {limit:,.0f}"


def _cells(row: HostRow | None) -> str:
    line_of_text = " ".join(
        f"[{p}]" if active else p for p, active, _ in (row.cells if row else ())
    )
    return line_of_text if len(line_of_text) <= _CELLS else f"{line_of_text[: _CELLS - 1]}…"
