"""What recovery would cost, as pictures: on each host, and if a host died now. Pure.

Green is up to ten seconds, blue up to a minute, yellow up to five, red longer; grey isn't known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from samza_dagster.orchestration.show.pictures import WIDTH, box, legend, svg_of, text
from samza_dagster.orchestration.text import in_words, natural

MOST_HOSTS, MOST_CONTAINERS = 40, 14
ANY_OTHER = "any other host"
_KINDS = ((10.0, "s"), (60.0, "a"), (300.0, "o"), (float("inf"), "d"))
_LEGEND = (("s", "≤ 10 s"), ("a", "≤ 1 min"), ("o", "≤ 5 min"), ("d", "longer"), ("p", "not known"))
_ROW, _TOP, _LEFT = 24, 84, 190

Rows = Sequence[Mapping[str, Any]]


def heat_svg(rows: Rows) -> str:
    """Hosts × active containers, from rows of `restore_forecast`: how long each takes there.

    The containers that need longest at best, and the hosts on which something is known. A bold
    figure is warm: a copy of the state is there.
    """
    cells = {(_host(row["host"]), _container(row, rows)): row for row in rows}
    best: dict[str, float] = {}
    for (_, container), row in cells.items():
        took = row["restore_s"]
        known = float("inf") if took is None else float(took)
        best[container] = min(known, best.get(container, float("inf")))
    worst = sorted(best, key=lambda name: (-best[name], natural(name)))[:MOST_CONTAINERS]
    containers = sorted(worst, key=natural)
    hosts = sorted({host for host, _ in cells}, key=lambda h: (h == ANY_OTHER, natural(h)))
    left_out = len(best) - len(containers)
    title = "time to process again, by host" + (
        f"; {left_out} quicker not drawn" if left_out else ""
    )
    wide = min(90, (WIDTH - _LEFT - 20) // max(1, len(containers)))
    drawn = [_head(title)]
    for column, container in enumerate(containers):
        x = _LEFT + column * wide
        drawn.append(text(x + 4, _TOP - 6, 12, container[: max(2, wide // 8)]))
    for line, host in enumerate(hosts[:MOST_HOSTS]):
        y = _TOP + line * _ROW
        drawn.append(text(10, y + 16, 13, host[:22]))
        for column, container in enumerate(containers):
            row = cells.get((host, container))
            if row is None:
                continue
            x, took = _LEFT + column * wide, row["restore_s"]
            drawn.append(box(_kind(took), x, y, wide - 2, _ROW - 3))
            weight = ' font-weight="bold"' if row["is_warm"] else ""
            drawn.append(text(x + 4, y + 16, 12, "?" if took is None else in_words(took), weight))
    more = len(hosts) - MOST_HOSTS
    if more > 0:
        drawn.append(text(10, _TOP + MOST_HOSTS * _ROW + 16, 13, f"and {more} more hosts"))
    high = _TOP + _ROW * (min(len(hosts), MOST_HOSTS) + (more > 0)) + 10
    return svg_of(WIDTH, high, "".join(drawn))


def loss_svg(rows: Rows) -> str:
    """What if a host dies, from rows of `host_loss`: a line each, the most painful first.

    Its bar is as long as the longest downtime of a container that it has.
    """
    of: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        of[str(row["host"])].append(row)
    worst = {
        host: max((r["downtime_s"] or 0.0 for r in lost), default=0.0) for host, lost in of.items()
    }
    unknown = {host: sum(r["downtime_s"] is None for r in lost) for host, lost in of.items()}
    order = sorted(of, key=lambda host: (-unknown[host], -worst[host], natural(host)))
    longest = max([*worst.values(), 1.0])
    drawn = [_head("if this host died now")]
    for line, host in enumerate(order[:MOST_HOSTS]):
        y, lost = _TOP + line * _ROW, of[host]
        bare = sum(not row["has_standby"] for row in lost)
        none_known = unknown[host] == len(lost)
        caption = f"{len(lost)} active{'s' * (len(lost) != 1)}, down "
        caption += "for how long isn't known" if none_known else f"up to {in_words(worst[host])}"
        caption += f", {unknown[host]} not known" if unknown[host] and not none_known else ""
        caption += f", {bare} without a standby" if bare else ""
        width = max(4, round(worst[host] / longest * 260))
        kind = "p" if none_known else _kind(worst[host])
        drawn.append(text(10, y + 16, 13, host[:22]))
        drawn.append(box(kind, _LEFT, y, width, _ROW - 3))
        drawn.append(text(_LEFT + width + 8, y + 16, 12, caption))
    more = len(order) - MOST_HOSTS
    if more > 0:
        drawn.append(text(10, _TOP + MOST_HOSTS * _ROW + 16, 13, f"and {more} more hosts"))
    high = _TOP + _ROW * (min(len(order), MOST_HOSTS) + (more > 0)) + 10
    return svg_of(WIDTH, high, "".join(drawn))


def _container(row: Mapping[str, Any], rows: Rows) -> str:
    first = rows[0]
    several = (first.get("job_name"), first.get("job_id")) != (
        rows[-1].get("job_name"),
        rows[-1].get("job_id"),
    )  # the rows are in the order of their jobs
    return f"{row['job_name']}/{row['processor_id']}" if several else str(row["processor_id"])


def _host(host: object) -> str:
    return ANY_OTHER if host is None else str(host)


def _kind(seconds: float | None) -> str:
    if seconds is None:
        return "p"
    return next(kind for most, kind in _KINDS if seconds <= most)


def _head(title: str) -> str:
    return text(10, 26, 16, title) + legend(_LEGEND, 10, 110)
