"""The shadow itself: a picture every second, compared with the one before, until it is told to end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.coordinator.shadow.episodes import OPEN, Episode, Watch, follow
from samza_dagster.coordinator.shadow.log import ShadowLog
from samza_dagster.coordinator.shadow.picture import Picture, PictureReader
from samza_dagster.coordinator.shadow.work import Downtime, WorkReader
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.interface import wall_clock_ms
from samza_dagster.placement.state import Limits

EVERY_S = 1.0
COUNT_EVERY_S = 60.0
_TAKEN_OVER = "our own coordinator leads the job by now"
_log = logging.getLogger(__name__)


@dataclass
class _Spent:
    """Seconds by the monotonic clock; `at_s` is up to when they are counted."""

    at_s: float
    listened_s: float = 0.0
    blind_s: float = 0.0
    counted_s: float = 0.0
    """When `listening` was written last."""


class Shadow:
    """Follows one job and logs what happens and what ours would have done. It writes nothing else."""

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
        self._spent = _Spent(monotonic(), counted_s=monotonic())
        self._seen: Picture | None = None
        self._watch = Watch()
        self._blind = ""

    def stop(self) -> None:
        """End after the look that it is at; from a signal's handler, too."""
        self._stopped.set()

    def run(self) -> None:
        """Look every second or two until `stop`, then write what is open and the closing record.

        Raises `InvalidInput` where the first look says that there is no such job.
        """
        self._log.begin(self._now_ms())
        try:
            while not self._stopped.is_set():
                began_s = self._monotonic()
                self.look()
                # A stream with many answers takes longer: half of the time is enough for a bystander.
                self._stopped.wait(max(EVERY_S, self._monotonic() - began_s))
        finally:
            self.close()

    def look(self) -> None:
        """Read one picture and log what is new in it. What can't be read now counts as blind."""
        try:
            picture = self._reader.read()
        except (Unreachable, InvalidInput) as error:
            if self._seen is None and isinstance(error, InvalidInput):
                raise
            self._count(blind=True)
            if not self._blind:
                _log.warning("can't see the job: %s", error)
            self._blind = str(error)
            return
        if self._blind:
            _log.info("sees the job again")
            self._blind = ""
        self._count(blind=False)
        if picture.view.coordinator == "samza_dagster":
            self._why = _TAKEN_OVER
            self.stop()
            return
        if self._seen is None:
            _log.info("listens beside Samza's Application Master; nothing is written to the job")
        else:
            known = set(self._watch.open)
            self._watch, changed = follow(
                self._watch, self._seen, picture, self._limits, self._measured(self._seen)
            )
            for episode in changed:
                self._log.event(picture.at_ms, episode)
                if episode.state != OPEN or episode.id not in known:
                    _tell(episode)
        self._seen = picture

    def close(self) -> None:
        """Write what is open as unfinished, and the closing record."""
        at_ms = self._now_ms()
        for episode in self._watch.unfinished(self._why, at_ms):
            self._log.event(at_ms, episode)
        self._log.end(at_ms, self._spent.listened_s, self._spent.blind_s, self._why)
        self._log.close()
        _log.info("ends: %s", self._why)

    def _measured(self, seen: Picture) -> dict[str, Downtime]:
        """Return what the topics tell of open episodes; one that can't be read leaves it to reports."""
        found: dict[str, Downtime] = {}
        for episode in self._watch.to_measure():
            tasks = seen.partitions.get(episode.processor)
            if tasks is None or episode.around_ms is None:
                continue
            try:
                known = self._work.around(tasks, episode.around_ms)
            except (Unreachable, InvalidInput) as error:
                _log.warning("can't measure the downtime of %s: %s", episode.processor, error)
                continue
            if known is not None:
                found[episode.id] = known
        return found

    def _count(self, *, blind: bool) -> None:
        spent, now_s = self._spent, self._monotonic()
        passed_s, spent.at_s = now_s - spent.at_s, now_s
        if blind:
            spent.blind_s += passed_s
        else:
            spent.listened_s += passed_s
        if now_s - spent.counted_s >= COUNT_EVERY_S:
            spent.counted_s = now_s
            self._log.listening(self._now_ms(), spent.listened_s, spent.blind_s)


def _tell(episode: Episode) -> None:
    ours = episode.ours
    would = f"; ours: {ours.action} {ours.host}".rstrip() if ours is not None else ""
    if episode.state == OPEN:
        _log.info("%s of %s on %s%s", episode.kind, episode.processor, episode.host, would)
        return
    down = "" if episode.downtime_s is None else f", {episode.downtime_s:.1f} s of downtime"
    _log.info("%s of %s is over%s%s", episode.kind, episode.processor or "the job", down, would)
