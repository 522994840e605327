"""How far a bounce is and how long it will take yet, told as it goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from samza_dagster.orchestration.bounce.row import Bounced
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, Next, UnitStatus
from samza_dagster.orchestration.plans.bounce import (
    BouncePlan,
    Measured,
    expected_s,
    time_in_words,
)
from samza_dagster.orchestration.requests.heartbeat import EVERY_MS
from samza_dagster.orchestration.text import clock, in_words

if TYPE_CHECKING:
    from samza_dagster.orchestration.bounce.record import RunLedger


class ProgressLog:
    """Tells a ledger what changes, and every 30 s what it sees."""

    def __init__(self, ledger: RunLedger, plan: BouncePlan, now_ms: Callable[[], int]) -> None:
        self._ledger = ledger
        self._plan = plan
        self._now_ms = now_ms
        self._shown = ""
        self._because = ""
        self._why_now = ""
        self._is_over = False
        self._due_ms = 0
        self._forms: dict[str, str] = {}
        self.waits_until_ms: Mapping[str, int] = {}
        """Who waits because Samza's AM counts its stops, and until when."""

    def changed(self, row: Bounced, rows: Mapping[str, Bounced]) -> None:
        """One processor stands elsewhere; a lag that changes alone is left to the heartbeat."""
        line = f"{row.processor} on {row.now_on or row.host}: {row.status}: {row.why}"
        but_for_lag = line if row.lag is None else line.replace(f" {row.lag:,} ", " ")
        if self._forms.get(row.processor) != but_for_lag:
            self._forms[row.processor] = but_for_lag
            self._ledger.log(line, row)
        if row.status in (UnitStatus.BACK, UnitStatus.FAILED, UnitStatus.STUCK):
            self._why_now = ""
            self._ledger.finished(row, rows, _done(rows))
            self.tell(rows)

    def heartbeat(self, todo: Next, rows: Mapping[str, Bounced], now_ms: int) -> None:
        """What the bounce is at, when that changes and every 30 s."""
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

    def ended(self, because: str, rows: Mapping[str, Bounced]) -> None:
        """The last word: nothing more is asked."""
        self._why_now, self._is_over = because, True
        self.tell(rows)

    def tell(self, rows: Mapping[str, Bounced]) -> None:
        """The progress, if it says something else than before."""
        text = self.text(rows)
        if text != self._shown:
            self._shown = text
            self._ledger.progress(text)

    def text(self, rows: Mapping[str, Bounced]) -> str:
        """`7/20, about 12 min left`: by what this bounce took so far, else by earlier ones.

        While the canary bakes, what is left of that is part of it, and so is the wait for a
        processor that Samza's AM wouldn't let be stopped once more yet. Where nothing happens now,
        or somebody takes long, it says why, and until when. Once nothing more is asked the time is
        that of those in flight, and it says how many were not begun.
        """
        waiting = sum(row.status is UnitStatus.WAITING for row in rows.values())
        bad = sum(row.status in (UnitStatus.FAILED, UnitStatus.STUCK) for row in rows.values())
        statuses = UNDER_WAY if self._is_over else (UnitStatus.WAITING, *UNDER_WAY)
        left = {p: row.mode for p, row in rows.items() if row.status in statuses}
        parts = [f"{_done(rows)}/{len(rows)}"]
        parts += [f"{bad} failed"] if bad else []
        parts += [f"{waiting} not begun"] if waiting and self._is_over else []
        if left:
            time_left = self._time_left(left, rows)
            parts.append(f"{time_left} left" if time_left else "time left not known yet")
        why = f"; {self._why_now}" if (left or waiting) and self._why_now else ""
        return ", ".join(parts) + why

    def _time_left(self, left: Mapping[str, str], rows: Mapping[str, Bounced]) -> str:
        plan, now_ms = self._plan, self._now_ms()
        canary = {p for unit in plan.units[: plan.schedule.canaries] for p in unit.members}
        waits_s = {
            p: max(0, at - now_ms) / 1000 for p, at in self.waits_until_ms.items() if p in left
        }
        begun = {p: row.asked_ms for p, row in rows.items() if row.status in UNDER_WAY}
        measured = Measured(
            {**plan.measured.seconds, **_means((r.mode, r.seconds) for r in rows.values())},
            {**plan.measured.place_s, **_means((r.mode, r.place_s) for r in rows.values())},
        )
        took_s = expected_s(
            left,
            plan.schedule,
            measured,
            canaries_left=sum(p in canary for p in left),
            bake_s=self._bake_left_s(rows, canary),
            group_of=plan.group_of,
            waits_s=waits_s,
            under_way_s={p: (now_ms - (at or now_ms)) / 1000 for p, at in begun.items()},
        )
        is_least = not measured.seconds.keys() >= set(left.values())
        return time_in_words(took_s, waits_s, is_least=is_least)

    def _bake_left_s(self, rows: Mapping[str, Bounced], canary: Collection[str]) -> float:
        """All of it until the canary is back; nothing once others have begun."""
        bake_ms, others = self._plan.schedule.bake_ms, set(rows) - set(canary)
        begun = any(rows[p].status not in (UnitStatus.WAITING, UnitStatus.GONE) for p in others)
        if not canary or begun:
            return 0.0
        if any(rows[p].status in (UnitStatus.WAITING, *UNDER_WAY) for p in canary):
            return bake_ms / 1000
        back_ms = max((rows[p].back_ms or 0 for p in canary), default=0)
        return max(0, back_ms + bake_ms - self._now_ms()) / 1000


def _is_slow(row: Bounced, now_ms: int) -> bool:
    return now_ms - (row.asked_ms or now_ms) >= EVERY_MS


def _slow(row: Bounced, now_ms: int) -> str:
    """What somebody waits for who was asked a while ago, and when that will have been too long."""
    ago = in_words((now_ms - (row.asked_ms or now_ms)) / 1000)
    end = f", given up at {clock(row.until_ms)} UTC" if row.until_ms is not None else ""
    return f"{row.processor} for {ago}: {row.why}{end}"


def _means(told: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    by_mode: dict[str, list[float]] = {}
    for mode, seconds in told:
        if seconds is not None:
            by_mode.setdefault(mode, []).append(seconds)
    return {mode: sum(each) / len(each) for mode, each in by_mode.items()}


def _until(todo: Next) -> str:
    """Why nobody (else) is asked, and until when: somebody is asked then, or it ends."""
    if todo.ends_ms is not None:
        return f"{todo.because}; it ends at {clock(todo.ends_ms)} UTC if that stays so"
    if todo.until_ms is None or " UTC" in todo.because:
        return todo.because
    return f"{todo.because} until {clock(todo.until_ms)} UTC"


def _done(rows: Mapping[str, Bounced]) -> int:
    return sum(row.status in (UnitStatus.BACK, UnitStatus.GONE) for row in rows.values())
