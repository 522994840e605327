"""The newest published readiness of a job's standbys, and what it says of lags of now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from samza_dagster.client.access import JobAccess
from samza_dagster.client.verdicts import peers_of
from samza_dagster.client.views import JobView, ProcessorView, ReplicaLag
from samza_dagster.errors import Unreachable
from samza_dagster.lag import Forecast, NewestReadiness, Part, newest_readiness, soonest_ready
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import lag_topic

KEPT_S = 30.0


@dataclass(frozen=True)
class StandbysNow:
    """Standbys, the one that a takeover would wait least for first; and a sentence on each that is known of."""

    standbys: tuple[str, ...]
    notices: tuple[str, ...] = ()


class PublishedReadiness:
    """Reads a job's lag topic, and keeps what stood there for half a minute."""

    def __init__(self, job: JobAccess) -> None:
        self._job = job
        self._read_s: float | None = None
        self._records: list[tuple[bytes, bytes | None]] = []

    def beside(self, lags: Iterable[ReplicaLag]) -> NewestReadiness:
        """Return the part that is recent enough to use with these lags, judged by their newest report."""
        self._refresh()
        came = (lag.came_ms for lag in lags if lag.came_ms is not None)
        return newest_readiness(self._records, max(came, default=0))

    def is_there(self, standbys: Iterable[str]) -> bool:
        """Return whether readiness of one of these is published."""
        self._refresh()
        keys = {key for key, value in self._records if value is not None}
        return any(standby.encode() in keys for standby in standbys)

    def _refresh(self) -> None:
        now_s = self._job.monotonic()
        if self._read_s is None or now_s - self._read_s >= KEPT_S:
            self._records, self._read_s = self._read(), now_s

    def _read(self) -> list[tuple[bytes, bytes | None]]:
        if self._job.topics is None:
            return []
        name = lag_topic(self._job.job_name, self._job.job_id)
        try:
            records = list(self._job.topics.tail(name))
        except Unreachable:
            return []
        return [(one.key, one.value) for one in records if isinstance(one, TopicRecord) and one.key]


def _left_by_standby(lags: Iterable[ReplicaLag]) -> dict[str, dict[Part, int | None]]:
    """Offsets that each standby has still to apply, by replica; None where that isn't known."""
    found: dict[str, dict[Part, int | None]] = {}
    for lag in lags:
        if lag.mode is TaskMode.STANDBY:
            part = (lag.task_name, lag.store, lag.partition)
            found.setdefault(lag.processor_id, {})[part] = lag.lag
    return found


def standbys_about(view: JobView, processor: ProcessorView) -> list[str]:
    """An active's standbys; a standby itself."""
    if processor.mode is TaskMode.STANDBY:
        return [processor.processor_id]
    peers = peers_of(view, processor)
    return [peer.processor_id for peer in peers if peer.mode is TaskMode.STANDBY]


def standbys_now(
    newest: NewestReadiness, lags: Iterable[ReplicaLag], standbys: Sequence[str]
) -> StandbysNow:
    """Return these standbys by their published readiness and their lags of now."""
    left = _left_by_standby(lags)
    lines: list[str] = []
    for standby in standbys:
        if standby in newest.unused:
            lines.append(f"{standby}: {newest.unused[standby]}: it isn't used")
        elif standby in newest.standbys:
            found = newest.takeover(standby, left[standby]) if standby in left else None
            judged = newest.standbys[standby].status.value
            lines.append(f"{standby}: {judged} when last judged; {_waits(found)}")
    return StandbysNow(tuple(soonest_ready(newest, left, standbys)), tuple(lines))


def _waits(found: Forecast | None) -> str:
    if found is None:
        return "how long a takeover would wait for its state isn't known"
    if found.ready_in_ms is None:
        return "it makes no headway"
    text = f"a takeover now would wait {found.ready_in_ms / 1000:,.1f} s for its state"
    if found.soonest_ms == found.latest_ms or found.soonest_ms is None:
        return text
    latest = "unknown" if found.latest_ms is None else f"{found.latest_ms / 1000:,.1f} s"
    return f"{text} ({found.soonest_ms / 1000:,.1f} to {latest}, nine times of ten)"
