"""Times of reports, as an observer uses them: how far hosts' clocks are ahead, and which tasks are silent. Pure.

A report that wasn't there at one look and is at the next was written between the two: so its time
tells the difference of the two clocks, within bounds that narrow from report to report. Of silence a
source's own time is compared with nothing but its former one: no two machines' clocks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TOLERATED_MS = 5_000
_LONGEST_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class HostClock:
    """A host's newest report by its own clock, and by how many ms that is ahead, at least and at most.

    The bounds are None until a report came between two looks.
    """

    reported_ms: int
    least_ms: int | None = None
    most_ms: int | None = None

    @property
    def is_skewed(self) -> bool:
        """Its clock is certainly more than `TOLERATED_MS` ahead or behind."""
        return (self.least_ms or 0) > TOLERATED_MS or (self.most_ms or 0) < -TOLERATED_MS

    def __str__(self) -> str:
        least, most = self.least_ms or 0, self.most_ms or 0
        about = (least + most) / 2000
        side = "ahead of" if about > 0 else "behind"
        low, high = sorted((abs(least) / 1000, abs(most) / 1000))
        return (
            f"its clock is about {abs(about):.0f} s {side} the observer's (between {low:.1f} and"
            f" {high:.1f} s, by the times of its metrics reports and when they came)"
        )


def newest_reports(reports: Iterable[tuple[str | None, int | None]]) -> dict[str, int]:
    """Host → its newest report, of (host, its time) pairs; the others are passed over."""
    found: dict[str, int] = {}
    for host, at_ms in reports:
        if host is not None and at_ms is not None:
            found[host] = max(at_ms, found.get(host, at_ms))
    return found


def clocks(
    former: Mapping[str, HostClock],
    reported: Mapping[str, int],
    *,
    looked_ms: int,
    now_ms: int,
) -> dict[str, HostClock]:
    """Return host → its clock's bounds after a look that saw these reports.

    `looked_ms` is when the look before began, `now_ms` when this one has ended, both by the observer's
    clock. Bounds that contradict earlier ones, as after a clock was set, replace them.
    """
    found: dict[str, HostClock] = {}
    for host, at_ms in reported.items():
        known = former.get(host)
        if known is None or at_ms == known.reported_ms or now_ms - looked_ms > _LONGEST_MS:
            found[host] = HostClock(at_ms) if known is None else known
            continue
        least, most = at_ms - now_ms, at_ms - looked_ms
        if known.least_ms is not None and known.most_ms is not None:
            narrowed = max(least, known.least_ms), min(most, known.most_ms)
            least, most = narrowed if narrowed[0] <= narrowed[1] else (least, most)
        found[host] = HostClock(at_ms, least, most)
    return found


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest mark of a source, and when that was new, by the observer's clock in ms."""

    mark: int
    at_ms: int


def heard(
    former: Mapping[str, Heard], marks: Mapping[str, int | None], now_ms: int
) -> dict[str, Heard]:
    """Return source → when it was last heard, after a look that saw these marks; None: it saw none.

    A changed mark is new, even if it is smaller: a clock may be set back. So may the observer's:
    nothing was heard later than now. For a new source, silence counts from now. Sources that `marks`
    doesn't name are forgotten.
    """
    found: dict[str, Heard] = {}
    for source, mark in marks.items():
        known = former.get(source)
        if known is None or (mark is not None and mark != known.mark):
            known = Heard(mark or 0, now_ms)
        found[source] = Heard(known.mark, min(known.at_ms, now_ms))
    return found


def silent_after_ms(patience_ms: int) -> int:
    """The age of a newest report at which two in turn haven't come, with half an interval for a late one.

    `patience_ms`: three intervals of the reporter, for which what was reported is good.
    """
    return patience_ms * 5 // 6


def all_silent(
    reports: Iterable[Heard], *, worked_ms: int, now_ms: int, after_ms: int, since_ms: int = 0
) -> str:
    """For how long all that reported have been silent, once it is `after_ms`; empty: it isn't, or none has.

    Nobody has been so since before `since_ms`, when the deployment was first seen, or `worked_ms`, when
    a commit was: then only the reporters are broken.
    """
    heard_ms = [report.at_ms for report in reports if report.mark]
    silent_ms = now_ms - max(since_ms, worked_ms, *heard_ms, 0)
    if not heard_ms or silent_ms < after_ms:
        return ""
    return (
        f"all {len(heard_ms)} containers that reported have been silent for"
        f" {silent_ms / 1000:.0f} s at least"
    )
