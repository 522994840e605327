"""How far a bounce is and how long it will take yet, told as it goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from samza_dagster.orchestration.bounce.row import Bounced
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, Next, Stand
from samza_dagster.orchestration.plans.bounce import (
    BouncePlan,
    expected_s,
    time_in_words,
)
from samza_dagster.orchestration.requests.heartbeat import EVERY_MS
from samza_dagster.orchestration.show.pictures import clock

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
        self._pause = ""
        self._due_ms = 0
        self._forms: dict[str, str] = {}
        self.waits_until_ms: Mapping[str, int] = {}
        """Who waits because Samza's AM counts its stops, and until when."""

    def changed(self, row: Bounced, rows: Mapping[str, Bounced]) -> None:
        """One processor stands elsewhere; a lag that changes alone is left to the heartbeat."""
        line = f"{row.processor} on {row.now_on or row.host}: {row.stand}: {row.why}"
        but_for_lag = line if row.lag is None else line.replace(f" {row.lag:,} ", " ")
        if self._forms.get(row.processor) != but_for_lag:
            self._forms[row.processor] = but_for_lag
            self._ledger.log(line)
        if row.stand in (Stand.BACK, Stand.FAILED, Stand.STUCK):
            self._ledger.finished(row, rows, _done(rows))
            self.tell(rows)

    def heartbeat(self, todo: Next, rows: Mapping[str, Bounced], now_ms: int) -> None:
        """What the bounce is at, when that changes and every 30 s."""
        flying = [r for r in rows.values() if r.stand in UNDER_WAY]
        self._pause = "" if todo.ask or flying else _until(todo)
        if todo.because and todo.because != self._because:
            self._ledger.log(f"{todo.phase}: {_until(todo)}")
            self.tell(rows)
        self._because = todo.because
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + EVERY_MS
        sees = ", ".join(f"{r.processor}: {r.why}" for r in flying) or todo.because
        self._ledger.log(f"{todo.phase}: {self.text(rows)}; {sees or 'nobody is in flight'}")
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
        processor that Samza's AM wouldn't let be stopped once more yet. Where nothing happens now
        it says why, and until when.
        """
        plan = self._plan
        seconds: dict[str, list[float]] = {}
        for row in rows.values():
            if row.seconds is not None:
                seconds.setdefault(row.mode, []).append(row.seconds)
        means = {mode: sum(each) / len(each) for mode, each in seconds.items()}
        left = {p: row.mode for p, row in rows.items() if row.stand in (Stand.WAITING, *UNDER_WAY)}
        canary = {p for unit in plan.units[: plan.schedule.canaries] for p in unit.members}
        now_ms = self._now_ms()
        waits_s = {p: max(0, at - now_ms) / 1000 for p, at in self.waits_until_ms.items()}
        took = expected_s(
            left,
            plan.schedule,
            {**plan.measured.seconds, **means},
            canaries_left=sum(p in canary for p in left),
            bake_s=self._bake_left_s(rows, canary),
            waits_s=waits_s,
        )
        bad = sum(row.stand in (Stand.FAILED, Stand.STUCK) for row in rows.values())
        parts = [f"{_done(rows)}/{len(rows)}"]
        parts += [f"{bad} failed"] if bad else []
        if left:
            remaining = time_in_words(took, waits_s)
            parts.append(f"{remaining} left" if remaining else "time left not known yet")
        waits = f"; {self._pause}" if left and self._pause else ""
        return ", ".join(parts) + waits

    def _bake_left_s(self, rows: Mapping[str, Bounced], canary: Collection[str]) -> float:
        """All of it until the canary is back; nothing once others have begun."""
        bake_ms, others = self._plan.schedule.bake_ms, set(rows) - set(canary)
        begun = any(rows[p].stand not in (Stand.WAITING, Stand.GONE) for p in others)
        if not canary or begun:
            return 0.0
        if any(rows[p].stand in (Stand.WAITING, *UNDER_WAY) for p in canary):
            return bake_ms / 1000
        back_ms = max((rows[p].back_ms or 0 for p in canary), default=0)
        return max(0, back_ms + bake_ms - self._now_ms()) / 1000


def _until(todo: Next) -> str:
    """Why nobody (else) is asked, and when somebody will be, if that is known."""
    if todo.until_ms is None or " UTC" in todo.because:
        return todo.because
    return f"{todo.because} until {clock(todo.until_ms)} UTC"


def _done(rows: Mapping[str, Bounced]) -> int:
    return sum(row.stand in (Stand.BACK, Stand.GONE) for row in rows.values())
