"""Times at which nothing is to be begun: hours of weekdays, and dates. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from samza_dagster.errors import InvalidInput

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MIN = 24 * 60
MOST_WINDOWS, MOST_DAYS, MOST_DATES = 100, 14, 1_000
"""Of a bounce, and of the weekdays and the dates in one window."""
LONGEST_TEXT, LONGEST_WHY = 32, 200
"""Characters of a day, a date, a range of dates or a time; and of the reason."""
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_FIX = {"time": "HH:MM, 00:00 to 24:00", "date": "YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD"}


@dataclass(frozen=True)
class Window:
    """From `start` to `end` (minutes of the local day) on each of its days.

    A day counts when its weekday (0 Monday; none: all) and its date (none: all) do. With
    `end` not after `start` it goes on into the next morning, and belongs to the day on
    which it begins; with both the same it lasts 24 hours.
    """

    weekdays: frozenset[int] = frozenset()
    dates: tuple[tuple[date, date], ...] = ()
    start: int = 0
    end: int = DAY_MIN
    why: str = ""

    def holds(self, local: datetime) -> bool:
        """Whether the local time is in it."""
        minute = local.hour * 60 + local.minute
        today = local.date()
        if self.start < self.end:
            return self._is_day(today) and self.start <= minute < self.end
        yesterday = today - timedelta(days=1)
        return (self._is_day(today) and minute >= self.start) or (
            self._is_day(yesterday) and minute < self.end
        )

    def _is_day(self, day: date) -> bool:
        if self.weekdays and day.weekday() not in self.weekdays:
            return False
        return not self.dates or any(first <= day <= last for first, last in self.dates)

    @property
    def has_days(self) -> bool:
        """Whether there is a day that counts."""
        return not self.dates or any(
            self._is_day(first + timedelta(days=n))
            for first, last in self.dates
            for n in range(min((last - first).days, 6) + 1)
        )

    def __str__(self) -> str:
        days = ", ".join(WEEKDAYS[n] for n in sorted(self.weekdays)) or "every day"
        dates = ", ".join(
            f"{first}" if first == last else f"{first} to {last}" for first, last in self.dates
        )
        hours = f"{_clock(self.start)}–{_clock(self.end)}"
        return " ".join(part for part in (days, hours, dates, self.why) if part)


def window(
    *,
    weekdays: Iterable[str] = (),
    dates: Iterable[str] = (),
    start: str | int = 0,
    end: str | int = DAY_MIN,
    why: str = "",
) -> Window:
    """A window from its text; raises `InvalidInput` that names what can't be read or is too long.

    Also when no time would be in it: it would keep nothing from beginning.
    Numbers are minutes: YAML reads an unquoted 22:00 as 1320.
    """
    weekdays, dates = [*weekdays], [*dates]
    for what, found, most in (("weekdays", weekdays, MOST_DAYS), ("dates", dates, MOST_DATES)):
        if len(found) > most:
            raise InvalidInput(what, seen=f"{len(found):,} of them", fix=f"at most {most:,}")
    for text in (*weekdays, *dates, start, end):
        _bounded("a day, date or time", text, LONGEST_TEXT)
    _bounded("why", why, LONGEST_WHY)
    names = [name.strip().lower()[:3] for name in weekdays]
    unknown = [name for name in names if name not in WEEKDAYS]
    if unknown:
        raise InvalidInput("weekdays", seen=", ".join(unknown), fix=", ".join(WEEKDAYS))
    made = Window(
        weekdays=frozenset(WEEKDAYS.index(name) for name in names),
        dates=tuple(_dates(text) for text in dates),
        start=_minute(start),
        end=_minute(end),
        why=why,
    )
    if made.start == DAY_MIN and made.end in (0, DAY_MIN):
        seen = f"{_clock(made.start)}–{_clock(made.end)}: it begins when its day is over"
        fix = "a start before 24:00, or an end on the next morning, as 06:00"
        raise InvalidInput("a blackout's length", seen=seen, fix=fix)
    if not made.has_days:
        seen = f"{made}: none of these dates is one of these weekdays"
        raise InvalidInput("a blackout's days", seen=seen, fix="weekdays or dates, or one of both")
    return made


def _bounded(what: str, text: str | int, most: int) -> None:
    if isinstance(text, str) and len(text) > most:
        seen = f"{text[:most]!r}… of {len(text):,} characters"
        raise InvalidInput(what, seen=seen, fix=f"at most {most} characters")


def which(windows: Sequence[Window], local: datetime) -> Window | None:
    """The first window that holds a local time."""
    return next((w for w in windows if w.holds(local)), None)


def why_not(windows: Sequence[Window], local: datetime) -> str:
    """Why nothing may begin at a local time; empty when something may."""
    dark = which(windows, local)
    return f"{local:%a %Y-%m-%d %H:%M %Z} is in a blackout: {dark}" if dark is not None else ""


def _minute(text: str | int) -> int:
    minute = text if isinstance(text, int) else -1
    if isinstance(text, str) and (found := _TIME.fullmatch(text.strip())):
        minute = int(found[1]) * 60 + int(found[2]) if int(found[2]) < 60 else -1
    if not 0 <= minute <= DAY_MIN:
        raise InvalidInput("a time of the day", seen=repr(text), fix=_FIX["time"])
    return minute


def _dates(text: str) -> tuple[date, date]:
    first, dots, last = text.partition("..")
    try:
        begin = date.fromisoformat(first.strip())
        end = date.fromisoformat(last.strip()) if dots else begin
    except ValueError as error:
        raise InvalidInput("a date", seen=repr(text), fix=_FIX["date"]) from error
    if end < begin:
        raise InvalidInput("a range of dates", seen=repr(text), fix="the earlier one first")
    return begin, end


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
