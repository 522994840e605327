"""The leader's clock: wall time at take-over plus elapsed time; it never goes back, nor does the job's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_BEHIND_MS = 5_000
"""A machine's clock that is behind an earlier leader's by more is told of."""
log = logging.getLogger(__name__)


def elapsed_s() -> float:
    """Seconds of a clock that no one sets; it counts a suspended machine's time where it can."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch, for timestamps that people and Samza read."""
    return time.time_ns() // 1_000_000


class LeaderClock:
    """Milliseconds that look like wall time and only ever grow.

    A wall clock that is set while a term lasts moves no deadline. `seconds` is the
    elapsed clock under it, for callers that only measure.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int] = wall_clock_ms,
        seconds: Callable[[], float] = elapsed_s,
    ) -> None:
        self.seconds = seconds
        self._began_ms = wall_ms()
        self._began_s = seconds()

    def go_on_from(self, earlier_ms: int) -> int:
        """Is at least at the time that an earlier leader's clock has shown; by how much it was behind.

        What the state remembers by that clock, as failures and pauses, is never of a time to
        come, and the audit history never goes back. A machine that is ahead takes the job's
        time with it, also for later leaders with a correct clock.
        """
        behind_ms = max(0, earlier_ms - self.now_ms())
        self._began_ms += behind_ms
        if behind_ms > _BEHIND_MS:
            log.warning(
                "the clock of this machine is %.1f s behind that of an earlier leader, whose time goes "
                "on: set the one that is wrong",
                behind_ms / 1000,
            )
        return behind_ms

    def now_ms(self) -> int:
        """The leader's time."""
        return self._began_ms + int((self.seconds() - self._began_s) * 1000)
