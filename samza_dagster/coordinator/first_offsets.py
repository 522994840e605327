"""Running standbys without a known offset, by their reports. Pure; remembers since when.

A standby that applies has an offset soon after its check-in. If its restore dies before its
first record, it never has one, and if its reporter is dead, it reports nothing at all: in
both cases no offset could stand still. The same is true of one that ceased to
report, as after an OutOfMemoryError that ended its reporter and its restore together: it
owes a first offset again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from samza_dagster.coordinator.standby_lags import Stall, StandbyPart
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model.metrics_snapshots import TaskSample

REPORTS_IT = "it reports no offset"
REPORTS_NOTHING = "it reports nothing, as others do"
CEASED_TO_REPORT = "it has ceased to report, as others do"


@dataclass(slots=True)
class _Awaited:
    """A store partition without an offset: its end when that was first read, and since when it grew."""

    end: int
    grew_ms: int | None = None


@dataclass(slots=True)
class _Standby:
    reported_ms: int | None = None
    ceased: bool = False
    reported: set[str] = field(default_factory=set[str])
    awaited: dict[str, _Awaited] = field(default_factory=dict[str, _Awaited])
    read_ms: int | None = None

    @property
    def reports(self) -> bool:
        return self.reported_ms is not None

    @property
    def why(self) -> str:
        if self.reports:
            return REPORTS_IT
        return CEASED_TO_REPORT if self.ceased else REPORTS_NOTHING


@dataclass(slots=True)
class FirstOffsets:
    """First offsets that running incarnations have yet to report.

    `patience_ms` counts from when its changelog was first seen to grow after its check-in,
    by the leader's clock: only then is there something to apply for certain. One that
    reported and then was silent for longer than `current_ms` counts as one that has just
    checked in. Silence counts only where others were heard all the while, at most
    `current_ms` apart: else the metrics topic was away, or this leader. Nothing is concluded
    from the lack of a gauge that no task of the job has (a reporter may leave it out).
    """

    patience_ms: int
    current_ms: int
    _standbys: dict[str, _Standby] = field(default_factory=dict[str, _Standby])
    _gauges: set[str] = field(default_factory=set[str])
    _heard_ms: int | None = None
    _heard_since_ms: int | None = None

    def note(
        self,
        samples: Mapping[str, TaskSample],
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StandbyPart]],
        now_ms: int,
    ) -> None:
        """Takes the newest sample of each task; `standbys` run now, by their execution ids."""
        if not self._is_heard(now_ms):
            self._heard_ms = self._heard_since_ms = None
        if samples:
            self.heard(now_ms)
        for sample in samples.values():
            self._gauges |= set(map(_topic, sample.offsets))
        running = set(standbys.values())
        self._standbys = {name: one for name, one in self._standbys.items() if name in running}
        for processor_id, execution_id in standbys.items():
            standby = self._standbys.setdefault(execution_id, _Standby())
            reported_ms = standby.reported_ms
            if reported_ms is not None and now_ms - reported_ms > self.current_ms:
                standby = self._standbys[execution_id] = _Standby(ceased=True)
            for part in parts.get(processor_id, ()):
                sample = samples.get(part.task_name)
                if sample is None or sample.execution_id not in ("", execution_id):
                    continue
                standby.reported_ms = now_ms
                if sample.offsets.get(part.gauge) is not None:
                    standby.reported.add(part.gauge)
                    standby.awaited.pop(part.gauge, None)

    def heard(self, now_ms: int) -> None:
        """Some task of the job has reported."""
        self._heard_ms = now_ms
        if self._heard_since_ms is None:
            self._heard_since_ms = now_ms

    def note_deaf(self) -> None:
        """Not all reports can be read now: silence says nothing, and counts anew after it."""
        self._heard_ms = self._heard_since_ms = None

    def silent(self, standbys: Mapping[str, str]) -> bool:
        """Return whether any of them reports nothing."""
        return any(
            (standby := self._standbys.get(name)) is not None and not standby.reports
            for name in standbys.values()
        )

    def has_reported(self, execution_id: str, parts: Iterable[StandbyPart]) -> bool:
        """Return whether it has reported an offset of each part."""
        standby = self._standbys.get(execution_id)
        return standby is not None and all(part.gauge in standby.reported for part in parts)

    def due(
        self, standbys: Mapping[str, str], parts: Mapping[str, Sequence[StandbyPart]], now_ms: int
    ) -> tuple[str, ...]:
        """Return standbys without a first offset somewhere; the ends of their changelogs are to be read.

        A third of `current_ms` after they last were: an end more says little.
        """
        return tuple(
            processor_id
            for processor_id, execution_id in sorted(standbys.items())
            if (standby := self._standbys.get(execution_id)) is not None
            and not self.has_reported(execution_id, parts.get(processor_id, ()))
            and (standby.read_ms is None or now_ms - standby.read_ms >= self.current_ms // 3)
        )

    def stalls(
        self,
        due: Iterable[str],
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StandbyPart]],
        ranges: Mapping[tuple[str, int], OffsetRange],
        now_ms: int,
    ) -> Iterator[tuple[str, Stall, bool]]:
        """Yield due standbys that have applied nothing for too long, and whether that is certain.

        `ranges` are of now. Not certain: nobody of the job reports, or nobody has such a gauge.
        If everybody stopped reporting, nobody is named: that says nothing about the config.
        """
        for processor_id in due:
            standby = self._standbys[standbys[processor_id]]
            standby.read_ms = now_ms
            stalls = [
                stall
                for part in parts[processor_id]
                if part.gauge not in standby.reported
                and (stall := self._stall(part, standby, ranges, now_ms)) is not None
            ]
            if not stalls:
                continue
            longest = max(stalls, key=lambda stall: stall.for_ms)
            if standby.reports:
                yield processor_id, longest, _topic(longest.part.gauge) in self._gauges
            elif self._heard_since_ms is None:
                if not standby.ceased:
                    yield processor_id, longest, False
            elif now_ms - self._heard_since_ms >= self.patience_ms:
                yield processor_id, longest, True

    def interrupted(self) -> None:
        """Nothing could be read for a while: what was reported meanwhile isn't known, so all begins anew."""
        for standby in self._standbys.values():
            standby.awaited.clear()
        self.note_deaf()

    def _stall(
        self,
        part: StandbyPart,
        standby: _Standby,
        ranges: Mapping[tuple[str, int], OffsetRange],
        now_ms: int,
    ) -> Stall | None:
        span = ranges.get((part.topic, part.partition))
        if span is None or span.start >= span.end:  # nothing is there to apply
            standby.awaited.pop(part.gauge, None)
            return None
        awaited = standby.awaited.setdefault(part.gauge, _Awaited(span.end))
        if span.end < awaited.end:  # another changelog of the same name
            awaited.end, awaited.grew_ms = span.end, None
        elif awaited.grew_ms is None and span.end > awaited.end:
            awaited.grew_ms = now_ms
        if awaited.grew_ms is None or now_ms - awaited.grew_ms < self.patience_ms:
            return None
        return Stall(part, now_ms - awaited.grew_ms, None, span.end, standby.why)

    def _is_heard(self, now_ms: int) -> bool:
        return self._heard_ms is not None and now_ms - self._heard_ms <= self.current_ms


def _topic(gauge: str) -> str:
    """`kafka-log-12-offset` of whichever partition: `kafka-log`."""
    return gauge.removesuffix("-offset").rpartition("-")[0]
