"""Reads how far the standbys are whenever they report it, and tells the term.

What it tells improves a choice, and finds a standby that lives but applies nothing:
without it, or with a broker that is away, the coordinator goes on. It never reads or
writes anything that the state depends on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from samza_dagster.coordinator.first_offsets import FirstOffsets
from samza_dagster.coordinator.limits import STANDBY_STALLED
from samza_dagster.coordinator.mail import Ignored
from samza_dagster.coordinator.standby_lags import (
    Stall,
    StandbyLags,
    StandbyPart,
    running_standbys,
    store_parts,
)
from samza_dagster.errors import SamzaDagsterError, Unreachable, some_of
from samza_dagster.lag import NewestReadiness, newest_readiness
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.job_topics import (
    KafkaJobTopics,
    OffsetRange,
    span_of,
    why_no_span,
)
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import JobModel
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.metrics_snapshots import TaskSample, metrics_topics, task_samples
from samza_dagster.model.naming import lag_topic
from samza_dagster.placement.events import LagObserved, StandbyStalled
from samza_dagster.placement.state import JobState

EVERY_S = 1.0
_PATIENCE_S = 1.0
_INTERVALS = 3
"""A reporter that is late by two intervals isn't taken for dead."""
_STANDBY_TASK = b"TaskName-Standby-"
log = logging.getLogger(__name__)


class LagObserver:
    """The thread that observes lags; `start` it once, `close` it when the term ends."""

    def __init__(
        self,
        *,
        job: tuple[str, str],
        config: Mapping[str, str],
        reports: Sequence[FollowedTopic],
        ends: KafkaJobTopics,
        state: Callable[[], JobState],
        job_model: Callable[[], JobModel],
        tell: Callable[[LagObserved | StandbyStalled | Ignored], None],
        now_ms: Callable[[], int],
        every_s: float = EVERY_S,
    ) -> None:
        self._job = job
        self._stores = store_changelogs(config)
        self._reports = reports
        self._ends = ends
        self._state = state
        self._job_model = job_model
        self._tell = tell
        self._now_ms = now_ms
        self._every_s = every_s
        self._lags = StandbyLags(current_ms=_current_ms(config))
        self._stalled_ms = STANDBY_STALLED.of(config)
        # A report that is late by two intervals is no silence.
        patience_ms = max(self._stalled_ms, _current_ms(config))
        self._first = FirstOffsets(patience_ms, _current_ms(config))
        self._known_stalls: set[str] = set()
        self._not_known: set[str] = set()
        self._in_trouble = False
        self._unread: set[str] = set()
        self._unheard: set[str] = set()
        self._unreadable = 0
        self._newest_ms = 0
        self._reported_unreadable = False
        self._missing: set[str] = set()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag-observer", daemon=True)

    @classmethod
    def over_kafka(
        cls,
        connection: Connection,
        config: Mapping[str, str],
        *,
        state: Callable[[], JobState],
        job_model: Callable[[], JobModel],
        tell: Callable[[LagObserved | StandbyStalled | Ignored], None],
        now_ms: Callable[[], int],
    ) -> LagObserver | None:
        """The observer of a job; None when it has no changelog or no metrics topic.

        Connects at its first round. Earlier reports aren't read: only the reporters'
        clocks could tell their age.
        """
        topics = metrics_topics(config)
        if not store_changelogs(config):
            return None
        if not topics:
            log.warning(
                "no metrics reporter with a stream in the job's config: how far the standbys are "
                "behind, and whether one stands still, isn't known; set metrics.reporters and "
                "metrics.reporter.<name>.stream"
            )
            return None
        cluster = KafkaCluster.of(connection)
        return cls(
            job=(connection.job_name, connection.job_id),
            config=config,
            reports=[FollowedTopic(cluster, topic) for topic in topics],
            ends=KafkaJobTopics(cluster),
            state=state,
            job_model=job_model,
            tell=tell,
            now_ms=now_ms,
        )

    def start(self) -> None:
        """Begins to observe."""
        self._thread.start()

    def close(self) -> None:
        """Ends it; a round that waits for a broker ends by itself a little later."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)

    def observe(self) -> None:
        """Run one round; an error is logged when it appears, not again until a round succeeds."""
        try:
            noticed = list(self._round())
        except SamzaDagsterError as error:
            if not self._in_trouble:
                log.warning("the standbys' lag isn't known for now: %s", error)
            self._in_trouble = True
            self._first.interrupted()
            return
        finally:
            self._tell_unreadable()
        if self._in_trouble:
            log.info("the standbys' lag is read again")
        self._in_trouble = False
        for event in noticed:
            self._tell(event)

    def _round(self) -> Iterator[LagObserved | StandbyStalled]:
        standbys = running_standbys(self._state())
        snapshots: list[bytes] = []
        others: list[bytes] = []
        for topic in self._reports:
            for record in topic.new_records():
                self._newest_ms = max(self._newest_ms, record.timestamp_ms)
                if record.value is not None:
                    mine = snapshots if _STANDBY_TASK in record.value else others
                    mine.append(record.value)
        self._tell_missing()
        model = self._job_model()
        parts = {name: store_parts(model, name, self._stores) for name in standbys}
        runs = {part.task_name: standbys[name] for name in parts for part in parts[name]}

        def counts(sample: TaskSample) -> bool:
            """Return False for a sample of an earlier incarnation, on a host whose clock may be ahead."""
            return sample.execution_id in ("", runs.get(sample.task_name, sample.execution_id))

        now_ms, samples = self._now_ms(), self._samples(snapshots, counts)
        self._lags.note(samples, now_ms)
        due = self._lags.due(standbys, parts, now_ms)
        late = self._late(samples, others, standbys, parts, now_ms) if self._stalled_ms else ()
        if not due and not late:
            return
        # Ends after applied offsets: a lag is never too small.
        ranges = self._ranges(part for mine in parts.values() for part in mine)
        now_ms = self._now_ms()
        if due:
            newest = self._published([part for name in due for part in parts[name]])
            yield LagObserved(now_ms, self._lags.lags(due, parts, ranges, now_ms, newest))
        for name in due if self._stalled_ms else ():
            stall = self._lags.stalled(parts[name], self._stalled_ms)
            if stall is not None:
                yield self._stalled(standbys[name], stall, now_ms)
            elif self._first.has_reported(standbys[name], parts[name]):
                self._known_stalls.discard(standbys[name])
        for name, stall, certain in self._first.stalls(late, standbys, parts, ranges, now_ms):
            if certain:
                yield self._stalled(standbys[name], stall, now_ms)
            else:
                self._tell_not_known(standbys[name], stall)

    def _published(self, parts: Sequence[StandbyPart]) -> NewestReadiness | None:
        """The published paces, where reports that were seen here don't tell all of these yet: after a start."""
        if self._lags.are_timed(parts):
            return None
        try:
            records_read = [
                one
                for one in self._ends.tail(lag_topic(*self._job))
                if isinstance(one, TopicRecord)
            ]
        except SamzaDagsterError:
            return None
        records = [(one.key, one.value) for one in records_read if one.key is not None]
        return newest_readiness(records, self._newest_ms)

    def _ranges(self, parts: Iterable[StandbyPart]) -> dict[tuple[str, int], OffsetRange]:
        """Without those that can't be read or aren't there: of these standbys the lag isn't known, and no stall."""
        asked = self._ends.offset_ranges({store.topic for store in self._stores})
        ranges = {at: span for at, span in asked.items() if isinstance(span, OffsetRange)}
        unread = {one.seen for one in asked.values() if isinstance(one, Unreachable)}
        absent = {
            why_no_span(asked, *at)
            for part in parts
            if span_of(asked, *(at := (part.topic, part.partition))) is None
        }
        self._tell_unread(unread | absent)
        return ranges

    def _tell_unread(self, unread: set[str]) -> None:
        """Each when it begins; one that is read again may be told again."""
        if new := sorted(unread - self._unread):
            log.warning(
                "%s: how far the standbys of these partitions are isn't known, nor "
                "whether they stand still",
                some_of(new),
            )
        self._unread = unread

    def _late(
        self,
        samples: Mapping[str, TaskSample],
        others: Sequence[bytes],
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StandbyPart]],
        now_ms: int,
    ) -> tuple[str, ...]:
        """Standbys that may have applied nothing at all."""
        self._first.note(samples, standbys, parts, now_ms)
        deaf = False
        if self._first.silent(standbys):
            # A reporter in a partition without a leader isn't silent, but can't be heard.
            deaf = self._is_deaf()
            if deaf:
                self._first.note_deaf()
            elif any(self._samples([value]) for value in reversed(others)):
                self._first.heard(now_ms)
        late = self._first.due(standbys, parts, now_ms)
        return tuple(n for n in late if not (deaf and self._first.silent({n: standbys[n]})))

    def _is_deaf(self) -> bool:
        unread = {f"{t.topic}-{n}" for t in self._reports for n in t.without_leader()}
        if new := sorted(unread - self._unheard):
            log.warning(
                "%s has no leader: of a standby that isn't heard it isn't known whether it reports",
                some_of(new),
            )
        self._unheard = unread
        return bool(unread)

    def _samples(
        self, snapshots: Sequence[bytes], counts: Callable[[TaskSample], bool] = lambda _: True
    ) -> dict[str, TaskSample]:
        return task_samples(
            snapshots, *self._job, counts=counts, on_unreadable=self._note_unreadable
        )

    def _note_unreadable(self, _: bytes) -> None:
        self._unreadable += 1

    def _tell_unreadable(self) -> None:
        """Once a round; with a reason for the log once alone: such records may come for ever."""
        times, self._unreadable = self._unreadable, 0
        if not times:
            return
        names = ", ".join(topic.topic for topic in self._reports)
        why = (
            "" if self._reported_unreadable else f"a metrics snapshot of {names} that can't be read"
        )
        self._reported_unreadable = True
        self._tell(Ignored(why, counted_as="ignored-reports", times=times))

    def _stalled(self, execution_id: str, stall: Stall, now_ms: int) -> StandbyStalled:
        if execution_id not in self._known_stalls:
            log.warning("%s lives and stands still: %s", execution_id, stall)
        self._known_stalls.add(execution_id)
        return StandbyStalled(now_ms, execution_id, str(stall), stall.for_ms)

    def _tell_not_known(self, execution_id: str, stall: Stall) -> None:
        if execution_id not in self._not_known:
            log.warning(
                "whether %s applies anything isn't known, so it runs on: no task of the job "
                "reports such an offset (%s); look at metrics.reporters, and at the reporter's "
                "blacklist",
                execution_id,
                stall,
            )
        self._not_known.add(execution_id)

    def _tell_missing(self) -> None:
        missing = {topic.topic for topic in self._reports if not topic.found}
        for name in sorted(missing - self._missing):
            log.warning(
                "no metrics topic %s: the standbys' lag isn't known until it is there", name
            )
        self._missing |= missing

    def _run(self) -> None:
        try:
            while not self._closed.wait(self._every_s):
                try:
                    self.observe()
                except Exception:  # a choice without lags is better than no coordinator
                    log.exception("a round of reading the standbys' lag failed")
        finally:
            for topic in self._reports:
                topic.close()


def _current_ms(config: Mapping[str, str]) -> int:
    return _INTERVALS * 1000 * max(metrics_topics(config).values(), default=1)
