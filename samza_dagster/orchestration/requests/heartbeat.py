"""What a wait sees, in the log: at each change, and at least every half minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.plans.conditions import behind, lags_by_processor, reasons_unknown

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

EVERY_MS = 30_000


class Heartbeat:
    """Logs a line when `state` differs from the last one, or the last line is 30 s old."""

    def __init__(self, log: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._state: str | None = None
        self._at_ms = 0

    def begin(self, state: str) -> None:
        """A wait begins of which a line tells already: the next one is due in 30 s."""
        self._state, self._at_ms = state, self._now_ms()

    def __call__(self, state: str, line: str | Callable[[], str]) -> None:
        """`state` is what counts as a change; `line` may say more, and is made when it is due."""
        now_ms = self._now_ms()
        if state == self._state and now_ms - self._at_ms < EVERY_MS:
            return
        self._state, self._at_ms = state, now_ms
        self._log(line if isinstance(line, str) else line())


def seen_now(client: PlacementClient, processor_id: str, request: str = "") -> str:
    """What is known of a container and of the action for it, for a line of the log.

    How far its stores are behind tells how far its restore is. Raises nothing of ours: a
    line of the log ends no wait.
    """
    try:
        view = client.view()
        actions = (*view.actions, *view.queued) if request else ()
        parts = [f"its action is at {a.stage}" for a in actions if a.uuid == request]
        found = view.processors.get(processor_id)
        if found is None:
            parts.append(f"{processor_id} isn't in the job")
            return ", ".join(parts)
        where = f" on {found.host}" if found.host else ""
        parts.append(f"{processor_id} is {found.state}{where}")
        replicas = client.lag()
        lags, reasons = lags_by_processor(replicas), reasons_unknown(replicas)
        if processor_id in lags:
            parts.append(behind(lags[processor_id], reasons.get(processor_id, "")))
        return ", ".join(parts)
    except SamzaDagsterError as error:
        return f"{processor_id} can't be looked at: {error.seen or error.asked}"


def time_left(seconds: float) -> str:
    """How long till the deadline, for a line of the log."""
    return f"{max(0.0, seconds):.0f} s left"
