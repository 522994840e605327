"""The shadow itself: a picture every second, compared with the one before, until it is told to end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from samza_dagster.coordinator.shadow.downtime import Downtime, WorkReader
from samza_dagster.coordinator.shadow.events import UNFINISHED, ShadowEvent, Watch, follow
from samza_dagster.coordinator.shadow.log import ShadowLog, Span
from samza_dagster.coordinator.shadow.picture import Picture, PictureReader
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.interface import wall_clock_ms
from samza_dagster.placement.state import Limits

EVERY_S = 1.0
COUNT_EVERY_S = 60.0
_TAKEN_OVER = "our own coordinator leads the job by now"
_log = logging.getLogger(__name__)


class Shadow:
    """A follower of one job, which logs events and what our coordinator would have done.

    It writes nothing else.
    """

    def __init__(
        self,
        reader: PictureReader,
        work: WorkReader,
        log: ShadowLog,
        limits: Limits,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._work = work
        self._log = log
        self._limits = limits
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._why = "it was told to end"
        self._span = Span(now_ms(), now_ms())
        self._counted_s = self._written_s = monotonic()
        self._seen: Picture | None = None
        self._watch = Watch()
        self._blind = False

    def stop(self) -> None:
        """End after the look that it is at; from a signal's handler, too."""
        self._stopped.set()

    def run(self) -> None:
        """Look every second or two until `stop`, then write what is open and the closing record.

        Raises `InvalidInput` where the first look says that there is no such job.
        """
        self._log.add_span(self._span)
        try:
            while not self._stopped.is_set():
                began_s = self._monotonic()
                self.look()
                # A stream with many answers takes longer: half of the time is enough for a bystander.
                self._stopped.wait(max(EVERY_S, self._monotonic() - began_s))
        finally:
            self.close()

    def look(self) -> None:
        """Read one picture and log what is over by it. What can't be read now counts as blind."""
        try:
            picture = self._reader.read()
        except (Unreachable, InvalidInput) as error:
            if self._seen is None and isinstance(error, InvalidInput):
                raise
            if not self._blind:
                _log.warning("can't see the job: %s", error)
            self._blind = True
            self._count()
            return
        if self._blind:
            _log.info("sees the job again")
        self._blind = False
        self._count()
        if picture.view.coordinator == "samza_dagster":
            self._why = _TAKEN_OVER
            self.stop()
            return
        if self._seen is None:
            _log.info("listens beside Samza's Application Master; nothing is written to the job")
        else:
            known = self._watch.open
            measured = self._measure(self._seen)
            self._watch, over = follow(self._watch, self._seen, picture, self._limits, measured)
            for key, event in self._watch.open.items():
                if key not in known:
                    _log.info("%s", _describe(event))
            for event in over:
                self._log.event(event)
                down = "" if event.downtime_s is None else f", {event.downtime_s:.1f} s of downtime"
                _log.info("%s is over%s", _describe(event), down)
        self._seen = picture

    def close(self) -> None:
        """Write what is open as unfinished, and the closing record."""
        at_ms = self._now_ms()
        for event in self._watch.open.values():
            self._log.event(replace(event, state=UNFINISHED, because=self._why, over_ms=at_ms))
        self._log.add_span(replace(self._span, last_ms=at_ms, why=self._why))
        self._log.close()
        _log.info("ends: %s", self._why)

    def _measure(self, seen: Picture) -> dict[str, Downtime | None]:
        """Return what the topics tell of open events; what can't be read now is read again."""
        found: dict[str, Downtime | None] = {}
        for key, (processor, started_ms) in self._watch.to_measure().items():
            try:
                found[key] = self._work.around(seen.partitions.get(processor, {}), started_ms)
            except (Unreachable, InvalidInput) as error:
                _log.warning("can't measure the downtime of %s: %s", processor, error)
        return found

    def _count(self) -> None:
        """Count the time since the last look, and write the sum each minute."""
        now_s = self._monotonic()
        passed_s, self._counted_s = now_s - self._counted_s, now_s
        span = replace(self._span, last_ms=self._now_ms())
        if self._blind:
            self._span = replace(span, blind_s=span.blind_s + passed_s)
        else:
            self._span = replace(span, listened_s=span.listened_s + passed_s)
        if now_s - self._written_s >= COUNT_EVERY_S:
            self._written_s = now_s
            self._log.add_span(self._span)


def _describe(event: ShadowEvent) -> str:
    ours = event.ours
    would = f"; ours: {ours.action} {ours.host}".rstrip() if ours is not None else ""
    on = f" on {event.host}" if event.host else ""
    return f"{event.kind} of {event.processor or 'the job'}{on}{would}"
