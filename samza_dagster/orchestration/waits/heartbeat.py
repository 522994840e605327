"""What a wait sees, in the log: at each change, and at least every half minute."""

from __future__ import annotations

from collections.abc import Callable

EVERY_MS = 30_000


class Heartbeat:
    """Logs a line when `state` differs from the last one, or the last line is 30 s old."""

    def __init__(self, log: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._state: str | None = None
        self._at_ms = 0

    def __call__(self, state: str, line: str) -> None:
        """`state` is what counts as a change; `line` may say more."""
        now_ms = self._now_ms()
        if state == self._state and now_ms - self._at_ms < EVERY_MS:
            return
        self._state, self._at_ms = state, now_ms
        self._log(line)
