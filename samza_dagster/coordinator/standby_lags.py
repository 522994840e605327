"""Lag samples of standbys from what they report of themselves. Pure; remembers the last reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from samza_dagster.lag import (
    Applied,
    Forecast,
    NewestReadiness,
    Pace,
    Part,
    forecast,
    last_of,
    records_behind,
    stalled_for_ms,
    stalled_since,
    time_to_ready,
)
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model import JobModel
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.placement.state import JobState, Lag, Phase, Role

REMEMBERED = 12
"""Reports of one store partition that a forecast looks at."""


@dataclass(frozen=True, slots=True)
class StandbyPart:
    """A store partition of a standby's task: where it is written, which gauge reports its offset."""

    task_name: str
    topic: str
    partition: int
    gauge: str
    store: str


def store_parts(
    job_model: JobModel, processor_id: str, stores: Iterable[StoreChangelog]
) -> tuple[StandbyPart, ...]:
    """Return the parts that a processor has to apply; none for one that the JobModel lacks."""
    container = job_model.containers.get(processor_id)
    if container is None:
        return ()
    return tuple(
        StandbyPart(
            name,
            store.topic,
            task.changelog_partition,
            store.offset_gauge(task.changelog_partition),
            store.store,
        )
        for name, task in container.tasks.items()
        for store in stores
    )


def running_standbys(state: JobState) -> dict[str, str]:
    """Standby → execution id, of those that run."""
    return {
        processor.processor_id: processor.incarnation.execution_id
        for group in state.groups.values()
        for processor in group.processors.values()
        if processor.role is Role.STANDBY
        and processor.phase is Phase.RUNNING
        and processor.incarnation is not None
    }


class _Stand(NamedTuple):
    """The sample since which nothing was applied, and the newest, by when they were seen here."""

    since: Applied | None
    newest: Applied


@dataclass(slots=True)
class _Report:
    sample: TaskSample
    seen_ms: int
    is_news: bool = True
    applied: dict[str, deque[Applied]] = field(default_factory=dict[str, deque[Applied]])
    stands: dict[str, _Stand] = field(default_factory=dict[str, "_Stand"])


@dataclass(frozen=True, slots=True)
class Stall:
    """A store partition of a standby that nothing is applied to while it is written.

    `applied` None: it has never told an offset; `why` says then what it tells.
    """

    part: StandbyPart
    for_ms: int
    applied: int | None
    end: int
    why: str = ""

    def __str__(self) -> str:
        stands = self.why if self.applied is None else f"it stands at offset {self.applied}"
        return (
            f"{self.part.task_name} has applied nothing of {self.part.topic}-"
            f"{self.part.partition} for {self.for_ms / 1000:.0f} s: {stands}, "
            f"the end is {self.end}"
        )


@dataclass(slots=True)
class StandbyLags:
    """The newest report of each task, and of each of its store partitions the last few.

    A report counts for `current_ms` since it was seen here, by the leader's clock, and so
    does how long a store stands still: the clock of the host that sent it may be set meanwhile.
    Only how fast it applies is by that host's clock, which knows when it counted.
    """

    current_ms: int
    _reports: dict[str, _Report] = field(default_factory=dict[str, _Report])

    def note(self, samples: Mapping[str, TaskSample], now_ms: int) -> None:
        """Takes the newest sample of each task that has reported since the last call.

        One that is older than what is known is read once more, or comes late from another
        partition, unless what is known has expired here: then its host's clock went back, and
        rates begin anew by that clock.
        """
        for task, sample in samples.items():
            known = self._reports.get(task)
            if known is None or known.sample.execution_id != sample.execution_id:
                self._reports[task] = _Report(sample, now_ms)
            elif sample.at_ms < known.sample.at_ms and now_ms - known.seen_ms > self.current_ms:
                self._reports[task] = _Report(sample, now_ms, stands=known.stands)
            elif sample.at_ms > known.sample.at_ms:
                known.sample, known.seen_ms, known.is_news = sample, now_ms, True

    def due(
        self,
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StandbyPart]],
        now_ms: int,
    ) -> tuple[str, ...]:
        """Standbys all of whose tasks have reported since their last sample.

        `standbys` maps to execution ids; a report of another incarnation doesn't count.
        """
        return tuple(
            processor_id
            for processor_id, execution_id in sorted(standbys.items())
            if (mine := parts.get(processor_id))
            and all(self._is_news(part.task_name, execution_id, now_ms) for part in mine)
        )

    def lags(
        self,
        due: Iterable[str],
        parts: Mapping[str, Sequence[StandbyPart]],
        ranges: Mapping[tuple[str, int], OffsetRange],
        now_ms: int,
        newest: NewestReadiness | None = None,
    ) -> tuple[Lag, ...]:
        """A sample of each standby that is `due`.

        `ranges` are of now: a report is set against the end soon after it was made, or
        all that was written since would count as lag. Records are the sum over the
        standby's store partitions, the forecast is that of the one ready last; None where
        it can't be known. Of one that has reported once its pace is that of the `newest` published
        readiness.
        """
        found: list[Lag] = []
        for processor_id in due:
            reports = {
                part.task_name: self._reports[part.task_name] for part in parts[processor_id]
            }
            for report in reports.values():
                report.is_news = False
            known = newest.standbys.get(processor_id) if newest is not None else None
            paces: Mapping[Part, Pace] = known.paces if known is not None else {}
            lag = _lag(processor_id, parts[processor_id], reports, ranges, now_ms, paces)
            found.append(lag.evolve(good_for_ms=max(lag.good_for_ms, self.current_ms)))
        return tuple(found)

    def are_timed(self, parts: Iterable[StandbyPart]) -> bool:
        """Return whether two reports tell how fast each of these is applied."""
        return all(
            (report := self._reports.get(part.task_name)) is not None
            and len(report.applied.get(part.gauge, ())) > 1
            for part in parts
        )

    def stalled(self, parts: Sequence[StandbyPart], at_least_ms: int) -> Stall | None:
        """The part of a standby that has stood still longest, if it is for so long."""
        stalls: list[Stall] = []
        for part in parts:
            report = self._reports.get(part.task_name)
            stand = report.stands.get(part.gauge) if report is not None else None
            if stand is None:
                continue
            for_ms = stalled_for_ms(stand.since, stand.newest)
            if for_ms >= at_least_ms:
                stalls.append(Stall(part, for_ms, stand.newest.applied, stand.newest.end))
        return max(stalls, key=lambda stall: stall.for_ms, default=None)

    def _is_news(self, task: str, execution_id: str, now_ms: int) -> bool:
        report = self._reports.get(task)
        return (
            report is not None
            and report.is_news
            and now_ms - report.seen_ms <= self.current_ms
            and report.sample.execution_id in ("", execution_id)
        )


def _lag(
    processor_id: str,
    parts: Sequence[StandbyPart],
    reports: Mapping[str, _Report],
    ranges: Mapping[tuple[str, int], OffsetRange],
    now_ms: int,
    paces: Mapping[Part, Pace],
) -> Lag:
    behind: list[int | None] = []
    forecasts: list[Forecast | None] = []
    for part in parts:
        span = ranges.get((part.topic, part.partition))
        records, ready = _part(part, reports[part.task_name], span)
        if records is not None and ready is None:
            published = paces.get((part.task_name, part.store, part.partition))
            ready = forecast(records, published, writes_go_on=False)
        behind.append(records)
        forecasts.append(ready)
    ready = last_of(forecasts)
    total = None if None in behind else sum(records for records in behind if records is not None)
    return Lag(
        processor_id=processor_id,
        records=total,
        ready_in_ms=ready.ready_in_ms if ready is not None and total is not None else None,
        at_ms=now_ms,
    )


def _part(
    part: StandbyPart, report: _Report, span: OffsetRange | None
) -> tuple[int | None, Forecast | None]:
    applied = report.sample.offsets.get(part.gauge)
    records = records_behind(span.start, span.end, applied) if span is not None else None
    if span is None or records is None:  # nor is it known whether it stands still
        report.applied.pop(part.gauge, None)  # what was counted is of before
        report.stands.pop(part.gauge, None)
        return None, None
    # By what it reports: a beginning that moves on isn't applied by a standby that stands still.
    at = applied + 1 if applied is not None and records else span.end
    place = Applied(report.sample.at_ms, at, span.end)
    last = report.applied.setdefault(part.gauge, deque(maxlen=REMEMBERED))
    if last and place.applied < last[-1].applied:  # another changelog of the same name
        last.clear()
    last.append(place)
    before, seen = report.stands.get(part.gauge), replace(place, at_ms=report.seen_ms)
    since = stalled_since(None if before is None else before.since, seen)
    report.stands[part.gauge] = _Stand(since, seen)
    return records, time_to_ready(tuple(last), writes_go_on=False)
