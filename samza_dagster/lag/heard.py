"""Silence by the observer's own clock: since when nothing new was seen of a source. Pure.

A source's own time is compared with nothing but its former one: no two machines' clocks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """What was seen last of a source, and when that was new, by the observer's clock in ms."""

    mark: int
    at_ms: int


def heard(
    former: Mapping[str, Heard], marks: Mapping[str, int | None], now_ms: int
) -> dict[str, Heard]:
    """Source → what is known of it after a look that saw these marks; None: it saw none.

    A mark that has changed is new, be it smaller: a clock may be set back. So may the observer's:
    nothing was heard later than now. Of a source that wasn't known, silence counts from now. Those that
    `marks` doesn't name are forgotten.
    """
    found: dict[str, Heard] = {}
    for source, mark in marks.items():
        known = former.get(source)
        if known is None or (mark is not None and mark != known.mark):
            known = Heard(0 if mark is None else mark, now_ms)
        elif known.at_ms > now_ms:
            known = Heard(known.mark, now_ms)
        found[source] = known
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
