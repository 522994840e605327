"""Messages that a term hasn't handled yet, in order of arrival."""

from __future__ import annotations

import logging
import queue
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from samza_dagster.coordinator.callbacks import HostTold, Rival
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.mail import Mail
from samza_dagster.placement import events

LONG_ABSENCE_MS = 5_000
"""Other work that took longer: what came meanwhile is heard before anything counts as late."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CaughtUp:
    """A mark in the queue behind everything that arrived while the loop was away."""


Incoming = events.Event | HostTold | Rival | Mail


class Inbox:
    """A queue that any thread and a signal may fill; the loop alone empties it."""

    def __init__(self, clock: LeaderClock) -> None:
        self._clock = clock
        self._items: queue.SimpleQueue[Incoming | CaughtUp | None] = (
            queue.SimpleQueue()  # unlike `Queue.put`, a signal may interrupt its `put`
        )
        self._to_hear: CaughtUp | None = None

    def put(self, item: Incoming) -> None:
        """Add an item; safe from any thread."""
        self._items.put(item)

    def end(self) -> None:
        """End the loop once it has handled all before this; safe from a signal, too."""
        self._items.put(None)

    def next(self, within_s: float) -> Incoming | CaughtUp | None:
        """Return the next message, that time passed if none came, or None at the end."""
        try:
            return self._items.get(timeout=within_s)
        except queue.Empty:
            return events.TimePassed(0)

    @property
    def is_behind(self) -> bool:
        """Return whether items that arrived during a long absence are unhandled."""
        return self._to_hear is not None

    def caught_up(self, mark: CaughtUp) -> None:
        """Note that all items before this mark are handled."""
        if mark is self._to_hear:
            self._to_hear = None

    @contextmanager
    def away(self) -> Generator[None]:
        """Wrap work that brokers may delay, while items wait in the queue."""
        began_ms = self._clock.now_ms()
        try:
            yield
        finally:
            took_ms = self._clock.now_ms() - began_ms
            if took_ms > LONG_ABSENCE_MS:
                log.warning("the brokers held this leader up for %.1f s", took_ms / 1000)
                self.hear_first()

    def hear_first(self) -> None:
        """Set `is_behind` until all items of the queue are handled."""
        self._to_hear = CaughtUp()
        self._items.put(self._to_hear)
