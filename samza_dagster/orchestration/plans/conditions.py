"""Judge whether a standby is warm, by its newest reports at one look after the other. Pure.

A standby is steady while its lag is known and small at every look; as a lag counts as small from 0 up
to the limit, one that stays small is also flat. How long it has been steady its reports say: from the
look that found it small first to the one that saw its newest report first. One report, looked at again
and again, proves nothing more.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from samza_dagster.client import PlacementClient, ReplicaLag
from samza_dagster.lag import Heard, NewestReadiness, heard
from samza_dagster.orchestration.config import CatchUp

MOST_BETWEEN_LOOKS_MS = 15_000
"""Between two looks, at most, for a steady time to go on."""


def lags_by_processor(replicas: Iterable[ReplicaLag]) -> dict[str, int | None]:
    """The most that any store of each processor is behind; None when one of them isn't known."""
    found: dict[str, int | None] = {}
    for replica in replicas:
        pid, lag = replica.processor_id, replica.lag
        worst = found.get(pid, 0)
        found[pid] = None if lag is None or worst is None else max(worst, lag)
    return found


def reasons_unknown(replicas: Iterable[ReplicaLag]) -> dict[str, str]:
    """Processor → the reason why its lag isn't known, if something about it can't be read."""
    return {one.processor_id: one.reason for one in replicas if one.lag is None and one.reason}


def changelogs_lost(replicas: Collection[ReplicaLag]) -> dict[str, str]:
    """Processor → what is wrong with its changelog, so that its state can't be restored from there.

    An active can't tell that its changelog was created again; its standbys can.
    """
    lost = {(r.changelog, r.partition): r.reason or "" for r in replicas if r.is_changelog_lost}
    return {
        r.processor_id: lost[at] for r in replicas if (at := (r.changelog, r.partition)) in lost
    }


@dataclass(frozen=True)
class Reported:
    """Newest reports of replicas, by processor: lag, marks of new reports, why a lag isn't known.

    A processor that isn't in `lags` has no store. `newest` is the published readiness that gives their
    paces, if there is any. `lost` maps processors to what is wrong with their changelogs
    (`changelogs_lost`). They were read at `at_ms` by the reader's clock.
    """

    lags: Mapping[str, int | None]
    marks: Mapping[str, int]
    reasons: Mapping[str, str]
    newest: NewestReadiness | None = None
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    of: Mapping[str, Sequence[ReplicaLag]] = field(default_factory=dict[str, list[ReplicaLag]])
    at_ms: int = 0

    @classmethod
    def read(cls, client: PlacementClient, now_ms: int = 0) -> Reported:
        """Read the present reports. Raises `Unreachable`."""
        replicas = client.lag()
        return cls.by(replicas, client.readiness(replicas), now_ms)

    @classmethod
    def by(
        cls,
        replicas: Collection[ReplicaLag],
        newest: NewestReadiness | None = None,
        now_ms: int = 0,
    ) -> Reported:
        """Return these replicas' reports, by processor."""
        marks: dict[str, int] = {}
        of: dict[str, list[ReplicaLag]] = {}
        for one in replicas:
            of.setdefault(one.processor_id, []).append(one)
            if one.observed_at_ms is not None:
                mark = f"{one.execution_id} {one.observed_at_ms}".encode()
                marks[one.processor_id] = zlib.crc32(mark, marks.get(one.processor_id, 0))
        return cls(
            *(lags_by_processor(replicas), marks, reasons_unknown(replicas), newest),
            *(changelogs_lost(replicas), of, now_ms),
        )

    def limit(self, standby: str, bounds: CatchUp) -> int:
        """Returns how many records the standby may be behind and count as warm."""
        if self.newest is None:
            return bounds.lag_limit
        return self.newest.limit(standby, bounds.lag_limit, bounds.lag_limit_s)

    def is_warm(self, standby: str, bounds: CatchUp) -> bool:
        """Returns whether the standby's lag is known and small."""
        lag = self.lags.get(standby)
        return lag is not None and lag <= self.limit(standby, bounds)


def behind(lag: int | None, reason: str = "") -> str:
    """How far a replica is behind, for a person; `reason`: why that isn't known."""
    if lag is not None:
        return f"{lag:,} records behind"
    return f"lag unknown ({reason})" if reason else "lag unknown"


@dataclass
class WarmUp:
    """The wait for one standby. Times are in ms by the clock of the caller.

    `steady_s` is how long its lag must stay small; for a standby that isn't new, one look suffices.
    `line` describes the last look, at `at_ms`. `samples` has the time of each look and the largest lag
    of any store.
    """

    standby: str
    bounds: CatchUp
    steady_s: float
    line: str = ""
    at_ms: int | None = None
    samples: list[tuple[int, int | None]] = field(default_factory=list[tuple[int, int | None]])
    _waited_ms: int = 0
    _since_ms: int | None = None
    _report: Heard | None = None

    @classmethod
    def of(cls, standby: str, bounds: CatchUp, *, is_new: bool = True) -> WarmUp:
        """A wait that begins with its first look."""
        return cls(standby, bounds, bounds.steady_s if is_new else 0.0)

    def look(self, reported: Reported, now_ms: int) -> bool:
        """Return whether the standby is warm after one more look at its reports.

        After a look that comes too late, or by a clock that went back, the steady time starts over.
        """
        standby, passed_ms = self.standby, 0 if self.at_ms is None else now_ms - self.at_ms
        is_fresh = 0 <= passed_ms <= MOST_BETWEEN_LOOKS_MS
        self.at_ms, self._waited_ms = now_ms, self._waited_ms + max(0, passed_ms)
        self.samples.append((now_ms, reported.lags.get(standby)))
        before = {} if self._report is None else {standby: self._report}
        marks = {standby: reported.marks[standby]} if standby in reported.marks else {}
        self._report = heard(before, marks, now_ms).get(standby)
        if not reported.is_warm(standby, self.bounds):
            self._since_ms = None
        elif self._since_ms is None or not is_fresh:
            self._since_ms = now_ms
        self.line = self._described(reported)
        return self.is_warm

    @property
    def steady_ms(self) -> int | None:
        """How long its reports have shown it small; None while it isn't."""
        if self._since_ms is None:
            return None
        return 0 if self._report is None else max(0, self._report.at_ms - self._since_ms)

    @property
    def is_warm(self) -> bool:
        """Return whether it has been steady for long enough."""
        return self.steady_ms is not None and self.steady_ms >= self.steady_s * 1000

    @property
    def left_s(self) -> float:
        """How long it may take yet, counted from the first look."""
        return max(0.0, self.bounds.timeout_s - self._waited_ms / 1000)

    @property
    def is_too_late(self) -> bool:
        """Its time is over."""
        return not self.left_s

    def _described(self, now: Reported) -> str:
        standby, bounds = self.standby, self.bounds
        steady = "" if self.steady_ms is None else f", steady for {self.steady_ms / 1000:.0f} s"
        why = "" if now.newest is None else now.newest.unused.get(standby, "")
        unused = f" ({why}: it isn't used)" if why else ""
        limit = now.limit(standby, bounds)
        pace = f" (≤ {limit:,}, {bounds.lag_limit_s:g} s of its pace)"
        pace = pace if limit > bounds.lag_limit else unused
        return (
            f"{standby} {behind(now.lags.get(standby), now.reasons.get(standby, ''))}{pace}{steady};"
            f" wanted ≤ {bounds.lag_limit:,} for {self.steady_s:g} s within {self.left_s:.0f} s"
        )
