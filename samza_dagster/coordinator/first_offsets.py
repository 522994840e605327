"""Standbys that run and have applied nothing yet, by what they report. Pure; remembers since when.

One that applies has an offset soon after its check-in. One whose restore dies before its
first record has none for ever, and one whose reporter is dead reports nothing at all: of
neither is there an offset that could stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from samza_dagster.coordinator.standby_lags import Stall, StorePart
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model.metrics_snapshots import TaskSample

REPORTS_IT = "it reports no offset"
REPORTS_NOTHING = "it reports nothing, as others do"


@dataclass(slots=True)
class _Awaited:
    """A store partition without an offset: its end when that was first read, and since when it grew."""

    end: int
    grew_ms: int | None = None


@dataclass(slots=True)
class _Standby:
    reports: bool = False
    told: set[str] = field(default_factory=set[str])
    awaited: dict[str, _Awaited] = field(default_factory=dict[str, _Awaited])
    read_ms: int | None = None


@dataclass(slots=True)
class FirstOffsets:
    """What each running incarnation has yet to tell.

    `patience_ms` counts from when its changelog was first seen to grow after its check-in,
    by the leader's clock: only then is there something to apply for certain. Nothing is
    concluded from the silence of a job none of whose tasks has reported within
    `current_ms`, nor of a gauge that no task of the job has (a reporter may leave it out).
    """

    patience_ms: int
    current_ms: int
    _standbys: dict[str, _Standby] = field(default_factory=dict[str, _Standby])
    _gauges: set[str] = field(default_factory=set[str])
    _heard_ms: int | None = None

    def note(
        self,
        samples: Mapping[str, TaskSample],
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StorePart]],
        now_ms: int,
    ) -> None:
        """Takes the newest sample of each task; `standbys` run now, by their execution ids."""
        if samples:
            self._heard_ms = now_ms
        for sample in samples.values():
            self._gauges |= {_topic(gauge) for gauge in (*sample.offsets, *sample.unset)}
        running = set(standbys.values())
        self._standbys = {name: one for name, one in self._standbys.items() if name in running}
        for processor_id, execution_id in standbys.items():
            standby = self._standbys.setdefault(execution_id, _Standby())
            for part in parts.get(processor_id, ()):
                sample = samples.get(part.task_name)
                if sample is None or sample.execution_id not in ("", execution_id):
                    continue
                standby.reports = True
                if part.gauge in sample.offsets:
                    standby.told.add(part.gauge)
                    standby.awaited.pop(part.gauge, None)

    def heard(self, now_ms: int) -> None:
        """A task of the job that is no standby's has reported."""
        self._heard_ms = now_ms

    def silent(self, standbys: Mapping[str, str]) -> bool:
        """Whether any of them has reported nothing."""
        return any(
            (standby := self._standbys.get(name)) is not None and not standby.reports
            for name in standbys.values()
        )

    def has_told(self, execution_id: str, parts: Iterable[StorePart]) -> bool:
        """Whether it has told an offset of each of them."""
        standby = self._standbys.get(execution_id)
        return standby is not None and all(part.gauge in standby.told for part in parts)

    def due(
        self, standbys: Mapping[str, str], parts: Mapping[str, Sequence[StorePart]], now_ms: int
    ) -> tuple[str, ...]:
        """Standbys without a first offset somewhere, whose changelogs' ends are to be read.

        A third of `current_ms` after they last were: an end more says little.
        """
        return tuple(
            processor_id
            for processor_id, execution_id in sorted(standbys.items())
            if (standby := self._standbys.get(execution_id)) is not None
            and not self.has_told(execution_id, parts.get(processor_id, ()))
            and (standby.read_ms is None or now_ms - standby.read_ms >= self.current_ms // 3)
        )

    def stalls(
        self,
        due: Iterable[str],
        standbys: Mapping[str, str],
        parts: Mapping[str, Sequence[StorePart]],
        ranges: Mapping[tuple[str, int], OffsetRange],
        now_ms: int,
    ) -> Iterator[tuple[str, Stall, bool]]:
        """Of those that are `due` who has applied nothing for too long, and whether that is certain.

        `ranges` are of now. Not certain: nobody of the job reports, or nobody has such a gauge.
        """
        for processor_id in due:
            standby = self._standbys[standbys[processor_id]]
            standby.read_ms = now_ms
            stalls = [
                stall
                for part in parts[processor_id]
                if part.gauge not in standby.told
                and (stall := self._stall(part, standby, ranges, now_ms)) is not None
            ]
            if not stalls:
                continue
            longest = max(stalls, key=lambda stall: stall.for_ms)
            certain = self._is_heard(now_ms)
            if standby.reports:
                certain = _topic(longest.part.gauge) in self._gauges
            yield processor_id, longest, certain

    def interrupted(self) -> None:
        """Nothing could be read for a while: what was reported meanwhile isn't known, so all begins anew."""
        for standby in self._standbys.values():
            standby.awaited.clear()
        self._heard_ms = None

    def _stall(
        self,
        part: StorePart,
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
        why = REPORTS_IT if standby.reports else REPORTS_NOTHING
        return Stall(part, now_ms - awaited.grew_ms, None, span.end, why)

    def _is_heard(self, now_ms: int) -> bool:
        return self._heard_ms is not None and now_ms - self._heard_ms <= self.current_ms


def _topic(gauge: str) -> str:
    """`kafka-log-12-offset` of whichever partition: `kafka-log`."""
    return gauge.removesuffix("-offset").rpartition("-")[0]
