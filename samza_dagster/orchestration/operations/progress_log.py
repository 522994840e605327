"""How far an operation is, told as it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from samza_dagster.orchestration.operations.progress import BAD, OVER, Progress
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, Next, UnitStatus
from samza_dagster.orchestration.text import clock, in_words

if TYPE_CHECKING:
    from samza_dagster.orchestration.operations.runner import Ledger

EVERY_MS = 30_000


class ProgressLog:
    """Tells a ledger what changes, and every 30 s what it sees."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._shown = ""
        self._because = ""
        self._why_now = ""
        self._is_over = False
        self._due_ms = 0
        self._forms: dict[str, str] = {}

    def changed(self, row: Progress, rows: Mapping[str, Progress]) -> None:
        """One processor stands elsewhere; a lag that changes alone is left to the heartbeat."""
        line = f"{row.processor} on {row.now_on or row.host}: {row.status}: {row.why}"
        but_for_lag = line if row.lag is None else line.replace(f" {row.lag:,} ", " ")
        if self._forms.get(row.processor) != but_for_lag:
            self._forms[row.processor] = but_for_lag
            self._ledger.log(line, row)
        if row.status in (UnitStatus.BACK, *BAD):
            self._why_now = ""
            self._ledger.finished(row, rows, _done(rows))
            self.tell(rows)

    def heartbeat(self, todo: Next, rows: Mapping[str, Progress], now_ms: int) -> None:
        """What the operation is at, when that changes and every 30 s."""
        flying = [r for r in rows.values() if r.status in UNDER_WAY]
        is_due = now_ms >= self._due_ms
        is_new = bool(todo.because) and todo.because != self._because
        self._because, self._is_over = todo.because, todo.is_over
        if todo.is_over or not (todo.ask or flying):
            self._why_now = _until(todo)
        elif is_due or todo.ask:
            self._why_now = ", ".join(_slow(r, now_ms) for r in flying if _is_slow(r, now_ms))
        if is_new:
            self._ledger.log(f"{todo.phase}: {_until(todo)}")
        if is_due:
            self._due_ms = now_ms + EVERY_MS
            sees = [f"{r.processor}: {r.why}" for r in flying if not _is_slow(r, now_ms)]
            self._ledger.log("; ".join([f"{todo.phase}: {self.text(rows)}", *sees]))
        if is_new or is_due:
            self.tell(rows)

    def ended(self, because: str, rows: Mapping[str, Progress]) -> None:
        """The last word: nothing more is asked."""
        self._why_now, self._is_over = because, True
        self.tell(rows)

    def tell(self, rows: Mapping[str, Progress]) -> None:
        """The progress, if it says something else than before."""
        text = self.text(rows)
        if text != self._shown:
            self._shown = text
            self._ledger.progress(text)

    def text(self, rows: Mapping[str, Progress]) -> str:
        """`7/20, 1 failed`; where nothing happens now, or a container takes long, why and until when.

        Once nothing more is asked it also says how many were not begun.
        """
        waiting = sum(row.status is UnitStatus.WAITING for row in rows.values())
        flying = any(row.status in UNDER_WAY for row in rows.values())
        bad = sum(row.status in BAD for row in rows.values())
        parts = [f"{_done(rows)}/{len(rows)}"]
        parts += [f"{bad} failed"] if bad else []
        parts += [f"{waiting} not begun"] if waiting and self._is_over else []
        why = f"; {self._why_now}" if (flying or waiting) and self._why_now else ""
        return ", ".join(parts) + why


def _is_slow(row: Progress, now_ms: int) -> bool:
    return now_ms - (row.asked_ms or now_ms) >= EVERY_MS


def _slow(row: Progress, now_ms: int) -> str:
    """What somebody waits for who was asked a while ago, and when that will have been too long."""
    ago = in_words((now_ms - (row.asked_ms or now_ms)) / 1000)
    end = f", given up at {clock(row.until_ms)} UTC" if row.until_ms is not None else ""
    return f"{row.processor} for {ago}: {row.why}{end}"


def _until(todo: Next) -> str:
    """Why nobody (else) is asked, and until when: somebody is asked then, or it ends."""
    if todo.ends_ms is not None:
        return f"{todo.because}; it ends at {clock(todo.ends_ms)} UTC if that stays so"
    if todo.until_ms is None or " UTC" in todo.because:
        return todo.because
    return f"{todo.because} until {clock(todo.until_ms)} UTC"


def _done(rows: Mapping[str, Progress]) -> int:
    return sum(row.status in OVER for row in rows.values())
