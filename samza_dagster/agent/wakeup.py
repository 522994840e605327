"""Sleeping until a process ends, somebody calls, or the time is up."""

from __future__ import annotations

import contextlib
import math
import os
import select
from typing import Iterable, Set


class WakeUp:
    """One sleeper; `call` may come from any thread and from a signal handler."""

    def __init__(self) -> None:
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._mouth, False)
        self._once: Set[int] = set()

    def call(self) -> None:
        """Ends the sleep, or the next one."""
        with contextlib.suppress(BlockingIOError):  # full: it has reason enough to wake
            os.write(self._mouth, b"x")

    def watch_once(self, descriptor: int) -> None:
        """Wakes at this descriptor's end, and closes it then."""
        self._once.add(descriptor)

    def prepare(self, pidfds: Iterable[int]) -> select.poll:
        """What the next sleep wakes at; a pidfd that is closed after this wakes at once."""
        poller = select.poll()
        for descriptor in (self._ear, *self._once, *pidfds):
            poller.register(descriptor, select.POLLIN | select.POLLHUP)
        return poller

    def sleep(self, poller: select.poll, seconds: float) -> None:
        """At most so long."""
        # Rounded up: who wakes before a deadline looks in vain.
        for descriptor, _ in poller.poll(max(1, math.ceil(seconds * 1000))):
            if descriptor in self._once:
                self._once.remove(descriptor)
                os.close(descriptor)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._ear, 512):
                pass
