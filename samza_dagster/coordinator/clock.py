"""The leader's clock: wall time at take-over plus elapsed time.

It never goes back, nor does the job's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_BEHIND_MS = 5_000
"""A machine's clock that is behind an earlier leader's by more is told of."""
log = logging.getLogger(__name__)


def elapsed_s() -> float:
    """Return the seconds of a clock that is never set; it counts suspended time where it can."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


def wall_clock_ms() -> int:
    """Return milliseconds since the epoch, for timestamps that people and Samza read."""
    return time.time_ns() // 1_000_000


class LeaderClock:
    """A clock in milliseconds that starts at wall time and only ever grows.

    A wall clock that is set while a term lasts moves no deadline. `seconds` is the
    elapsed clock under it, for measurements.
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
        """Advance at least to an earlier leader's time; return by how much this clock was behind.

        The state's times by that clock, such as failures and pauses, are then never in the future,
        and the audit history never goes back. A machine that is ahead advances the job's time
        for good, also for later leaders with correct clocks.
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
        """Return the leader's time."""
        return self._began_ms + int((self.seconds() - self._began_s) * 1000)
