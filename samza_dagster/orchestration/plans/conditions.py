"""What a run waits for, and whether it has come true. Pure: states and times in, verdicts out.

A replica is steady while its lag is known and small at every look; as a lag counts as
small from 0 up to the limit, one that stays small is also flat. How long it has been steady its reports
say: from the look that found it small first to the one that saw its newest report first. One report,
looked at again and again, proves nothing more.

Whoever waits and whoever looks may be on two machines: what passes between them are lengths of
time, never times of day.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from samza_dagster.lag import Heard, heard
from samza_dagster.orchestration.plans.move import CatchUp
from samza_dagster.orchestration.versioned import Versioned

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient, ReplicaLag
    from samza_dagster.lag import NewestReadiness

NAMED = 3
IN_RUN_GAP_MS = 15_000
"""Between two looks of one run, at most, for a steady time to go on."""


@dataclass(frozen=True)
class Wait(Versioned):
    """One wait of a chain of runs: for any of some standbys to be steady.

    `left_ms` has how long each of them may still take, counted from the first look at it. `limit`
    in records, or as many as it applies in `limit_s` if that is more and known; `number` counts the waits of the chain from 1; `run` is the run that ended with it.
    """

    VERSION: ClassVar[int] = 2

    left_ms: Mapping[str, int]
    limit: int
    steady_s: float
    number: int
    run: str
    limit_s: float = 0.0
    what: Literal["steady-lag"] = "steady-lag"

    @property
    def who(self) -> tuple[str, ...]:
        """The standbys, in order."""
        return tuple(self.left_ms)


@dataclass(frozen=True)
class Met(Versioned):
    """What a sensor saw before it continued a run: who was steady, for how many ms.

    None of them: the time of one was over, or `why` names what else happened. `left_ms` has how
    long each may take yet.
    """

    VERSION: ClassVar[int] = 2

    steady_ms: Mapping[str, int]
    left_ms: Mapping[str, int]
    why: str


@dataclass(frozen=True)
class Watched:
    """Since when (ms) each replica of a wait has been small, as of the look at `at_ms`.

    `waited_ms` adds up the times between the looks, `reports` tells when the newest of each was new;
    all by the clock of whoever looks.
    """

    since_ms: Mapping[str, int]
    at_ms: int
    waited_ms: int = 0
    reports: Mapping[str, Heard] = field(default_factory=dict[str, Heard])

    def steady_ms(self, one: str) -> int | None:
        """How long its reports have shown it small; None while it isn't."""
        since, report = self.since_ms.get(one), self.reports.get(one)
        if since is None:
            return None
        return 0 if report is None else max(0, report.at_ms - since)

    def by_another_clock(self, now_ms: int) -> Watched:
        """The same for one whose clock is another: how long the last look is ago isn't known."""
        return Watched({}, now_ms, self.waited_ms)

    def left_ms(self, wait: Wait) -> dict[str, int]:
        """How long each replica may take yet."""
        return {one: max(0, ms - self.waited_ms) for one, ms in wait.left_ms.items()}


def lags_by_processor(replicas: Iterable[ReplicaLag]) -> dict[str, int | None]:
    """The most that any store of each processor is behind; None when one of them isn't known."""
    found: dict[str, int | None] = {}
    for replica in replicas:
        pid, lag = replica.processor_id, replica.lag
        worst = found.get(pid, 0)
        found[pid] = None if lag is None or worst is None else max(worst, lag)
    return found


def reasons_unknown(replicas: Iterable[ReplicaLag]) -> dict[str, str]:
    """Why the lag of a processor isn't known, of those of which something can't be read."""
    return {one.processor_id: one.reason for one in replicas if one.lag is None and one.reason}


def changelogs_lost(replicas: Collection[ReplicaLag]) -> dict[str, str]:
    """Processor → what is wrong with a changelog of its, so that its state can't be restored from there.

    An active can't tell that its changelog was made anew: its standbys can.
    """
    lost = {(r.changelog, r.partition): r.reason or "" for r in replicas if r.is_changelog_lost}
    return {
        r.processor_id: lost[at] for r in replicas if (at := (r.changelog, r.partition)) in lost
    }


@dataclass(frozen=True)
class Reported:
    """What replicas' newest reports tell, by processor: its lag, what marks them as new, why it isn't known.

    `newest` is the published readiness that their paces are known by, if there is any.
    """

    lags: Mapping[str, int | None]
    marks: Mapping[str, int]
    reasons: Mapping[str, str]
    newest: NewestReadiness | None = None

    @classmethod
    def read(cls, client: PlacementClient) -> Reported:
        """What they tell now. Raises `Unreachable`."""
        replicas = client.lag()
        return cls.by(replicas, client.readiness(replicas))

    @classmethod
    def by(
        cls, replicas: Collection[ReplicaLag], newest: NewestReadiness | None = None
    ) -> Reported:
        """Made once for all waits: there may be a thousand of either."""
        marks: dict[str, int] = {}
        for one in replicas:
            if one.observed_at_ms is not None:
                mark = f"{one.execution_id} {one.observed_at_ms}".encode()
                marks[one.processor_id] = zlib.crc32(mark, marks.get(one.processor_id, 0))
        return cls(lags_by_processor(replicas), marks, reasons_unknown(replicas), newest)

    def limit(self, wait: Wait, one: str) -> int:
        """How many records one of those that are waited for may be behind."""
        if self.newest is None:
            return wait.limit
        return self.newest.limit(one, wait.limit, wait.limit_s)


def look(
    wait: Wait,
    former: Watched | None,
    now: Reported,
    now_ms: int,
    gap_ms: int = IN_RUN_GAP_MS,
) -> Watched:
    """What is known after one more look; after one that comes more than `gap_ms` late, or by a
    clock that went back, the steady times begin anew.
    """
    passed_ms = 0 if former is None else now_ms - former.at_ms
    waited_ms = max(0, passed_ms) + (0 if former is None else former.waited_ms)
    fresh = 0 <= passed_ms <= gap_ms
    before: Mapping[str, Heard] = former.reports if former is not None else {}
    marks = {one: now.marks[one] for one in wait.who if one in now.marks}
    reports = heard(before, marks, now_ms)
    since: dict[str, int] = {}
    for one in wait.who:
        lag = now.lags.get(one)
        if lag is not None and lag <= now.limit(wait, one):
            since[one] = former.since_ms.get(one, now_ms) if fresh and former else now_ms
    return Watched(since, now_ms, waited_ms, reports)


def met(wait: Wait, watched: Watched, processors: Iterable[str]) -> Met | None:
    """Why the run is to be continued now; None while it is to wait on.

    A run is continued too when its time is over or a standby is gone: it then ends
    with the true reason.
    """
    left_ms = watched.left_ms(wait)
    steady = {
        one: ms
        for one in watched.since_ms
        if (ms := watched.steady_ms(one)) is not None and ms >= wait.steady_s * 1000
    }
    gone = sorted(set(wait.who) - set(processors))
    if steady:
        why = f"{_some_of(sorted(steady))} at most {wait.limit:,} records behind for {wait.steady_s:g} s"
    elif gone:
        why = f"{_some_of(gone)} isn't in the job any more"
    elif min(left_ms.values(), default=0) == 0:
        why = "its time is over"
    else:
        return None
    return Met(steady, left_ms, why)


def behind(lag: int | None, reason: str = "") -> str:
    """How far a replica is behind, for a person; `reason`: why that isn't known."""
    if lag is not None:
        return f"{lag:,} records behind"
    return f"lag unknown ({reason})" if reason else "lag unknown"


def described(wait: Wait, watched: Watched, now: Reported) -> str:
    """One line on a wait, for a person."""
    parts: list[str] = []
    for one in wait.who:
        held_ms = watched.steady_ms(one)
        steady = "" if held_ms is None else f", steady for {held_ms / 1000:.0f} s"
        why = "" if now.newest is None else now.newest.unused.get(one, "")
        unused = f" ({why}: it isn't used)" if why else ""
        limit = now.limit(wait, one)
        pace = f" (≤ {limit:,}, {wait.limit_s:g} s of its pace)" if limit > wait.limit else unused
        parts.append(f"{one} {behind(now.lags.get(one), now.reasons.get(one, ''))}{pace}{steady}")
    left = min(watched.left_ms(wait).values(), default=0) / 1000
    return (
        f"{'; '.join(parts)}; wanted ≤ {wait.limit:,} for {wait.steady_s:g} s within {left:.0f} s"
    )


def _some_of(names: Sequence[str]) -> str:
    """The first few: the text is part of a run tag."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


@dataclass
class WarmUp:
    """The wait for one standby. Times are by the clock of whoever looks.

    `seen` is what was seen of it between two runs: a standby that was steady then, and isn't behind
    now, is warm, and it has the time that this wait left.
    """

    standby: str
    wait: Wait
    within_s: float
    seen: Met | None = None
    line: str = ""
    watched: Watched | None = None

    @classmethod
    def of(
        cls, standby: str, bounds: CatchUp, seen: Met | None = None, *, is_new: bool = True
    ) -> WarmUp:
        """A wait that begins now; one that isn't new has to be small once."""
        left_ms = seen.left_ms.get(standby) if seen is not None else None
        left_ms = round(bounds.timeout_s * 1000) if left_ms is None else left_ms
        steady_s = bounds.steady_s if is_new else 0.0
        wait = Wait({standby: left_ms}, bounds.lag_limit, steady_s, 0, "", bounds.lag_limit_s)
        return cls(standby, wait, bounds.timeout_s, seen)

    def look(self, reported: Reported, now_ms: int) -> bool:
        """Whether it is warm after one more look at what it reported; `line` then tells of it."""
        self.watched = look(self.wait, self.watched, reported, now_ms)
        self.line = described(self.wait, self.watched, reported)
        return self.is_warm

    @property
    def steady_ms(self) -> int | None:
        """How long it has been steady, at the last look and before this run; None while it isn't."""
        steady_ms = self.watched.steady_ms(self.standby) if self.watched is not None else None
        before_ms = self.seen.steady_ms.get(self.standby, 0) if self.seen is not None else 0
        return None if steady_ms is None else max(steady_ms, before_ms)

    @property
    def is_warm(self) -> bool:
        """It has been steady for long enough."""
        return self.steady_ms is not None and self.steady_ms >= self.wait.steady_s * 1000

    @property
    def rest(self) -> Wait:
        """What is left of the wait after the last look."""
        if self.watched is None:
            return self.wait
        return replace(self.wait, left_ms=self.watched.left_ms(self.wait))

    @property
    def is_too_late(self) -> bool:
        """Its time is over."""
        return not self.rest.left_ms[self.standby]
