"""Silence by the observer's own clock: since when nothing new was seen of a source. Pure.

A source's own time is compared with nothing but its former one: no two machines' clocks are.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    A mark that has changed is new, be it smaller: a clock may be set back. Of a source that wasn't
    known, silence counts from now. Those that `marks` doesn't name are forgotten.
    """
    found: dict[str, Heard] = {}
    for source, mark in marks.items():
        known = former.get(source)
        if known is None or (mark is not None and mark != known.mark):
            known = Heard(0 if mark is None else mark, now_ms)
        found[source] = known
    return found
