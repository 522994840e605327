"""The watch's sleep: until a process ends, a call arrives, or the time is up."""

from __future__ import annotations

import contextlib
import math
import os
import select
from typing import Iterable, Iterator, Optional, Set

from samza_dagster.agent.examination import LOOK_AGAIN_S, WARDEN_MARGIN_S
from samza_dagster.agent.incarnation import HostedIncarnation

_LONGEST_SLEEP_S = 5.0


class WakeUp:
    """A sleeper; `call` may come from any thread and from a signal handler."""

    def __init__(self) -> None:
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._mouth, False)
        self._once: Set[int] = set()

    def call(self) -> None:
        """End the sleep, or the next one."""
        with contextlib.suppress(BlockingIOError):  # full: it has reason enough to wake
            os.write(self._mouth, b"x")

    def watch_once(self, descriptor: int) -> None:
        """Wake at this descriptor's end, and close it then."""
        self._once.add(descriptor)

    def prepare(self, pidfds: Iterable[int]) -> select.poll:
        """Prepare the next sleep's wake-ups; a pidfd that is closed after this wakes at once."""
        poller = select.poll()
        for descriptor in (self._ear, *self._once, *pidfds):
            poller.register(descriptor, select.POLLIN | select.POLLHUP)
        return poller

    def sleep(self, poller: select.poll, seconds: float) -> None:
        """Sleep for `seconds` at most."""
        # Rounded up: a look before a deadline finds nothing.
        for descriptor, _ in poller.poll(max(1, math.ceil(seconds * 1000))):
            if descriptor in self._once:
                self._once.remove(descriptor)
                os.close(descriptor)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._ear, 512):
                pass


def pidfds(live: Iterable[HostedIncarnation]) -> Iterator[int]:
    """Yield the pidfds of every warden and container that isn't known to be dead."""
    for found in live:
        for handle in (found.warden, found.container):
            # A dead one stays readable, and would wake us without end.
            if handle is not None and handle.pidfd is not None and not handle.is_dead():
                yield handle.pidfd


def sleep_s(
    live: Iterable[HostedIncarnation],
    lease_left_s: Optional[float],
    *,
    looked_at: float,
    now: float,
) -> float:
    """Return the seconds until a deadline, the lease's end, or a look at what has no pidfd.

    `looked_at` is when the last look began, monotonic as `now` and an incarnation's deadlines
    are: a deadline between the two was ahead for that look, and is due at once.
    """
    sleep = _LONGEST_SLEEP_S
    for found in live:
        for deadline in (found.kill_at, found.give_up_at, found.bury_by, found.stale_at):
            # A deadline before that look has been acted on; it must not end every later sleep.
            if deadline is not None and deadline > looked_at:
                sleep = min(sleep, max(deadline - now, 0.0))
        handles = [h for h in (found.warden, found.container) if h is not None]
        if not handles or any(h.pidfd is None and not h.is_dead() for h in handles):
            sleep = min(sleep, LOOK_AGAIN_S)
        if lease_left_s is not None:
            sleep = min(sleep, max(lease_left_s + WARDEN_MARGIN_S, LOOK_AGAIN_S))
    return sleep
