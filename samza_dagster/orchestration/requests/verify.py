"""Judge whether a started container works: one judge for moves, drains and bounces.

`OwnCommits` keeps where a process's commits begin; the rest is pure. The caller decides how often and for
how long to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import dagster as dg

from samza_dagster.client import ProcessorView, ReplicaLag
from samza_dagster.orchestration.chain import others_of_chain, remember, remembered
from samza_dagster.orchestration.plans.move import LAST_SEEN_STATE, RUNNING

SINCE = "since"
MOST_KEPT = 40
"""Requests and their boundaries that fit into a tag (`MOST_TAG_BYTES`), with what else it has."""


class OwnCommits:
    """Request → offset of the checkpoint topic when it was first known to have succeeded.

    `kept` reads what runs of the chain have kept, at the first look; `keep` gets the new values.
    """

    def __init__(
        self,
        kept: Callable[[], Iterable[object]] = tuple,
        keep: Callable[[dict[str, int]], object] = lambda _: None,
    ) -> None:
        self._kept = kept
        self._keep = keep
        self._since: dict[str, int] | None = None

    @classmethod
    def of_run(cls, context: dg.OpExecutionContext) -> OwnCommits:
        """Kept in this run's memory, and read from those of its chain."""
        instance, run_id = context.instance, context.run_id

        def kept() -> list[object]:
            own = instance.get_run_by_id(run_id)  # with what an op before this one has kept
            return remembered((*others_of_chain(context), own or context.run), SINCE)

        return cls(kept, lambda since: remember(instance, run_id, SINCE, since))

    def since(self, uuid: str, end: Callable[[], int]) -> int:
        """Where they begin of the container that request `uuid` has started.

        `end` tells where the topic ends now. It is kept before it is gone by.
        """
        if self._since is None:
            self._since = {}
            for value in self._kept():
                for one, offset in _read(value).items():
                    self._since[one] = min(offset, self._since.get(one, offset))
        if uuid not in self._since:
            self._since[uuid] = end()
            newest = list(self._since.items())[-MOST_KEPT:]
            self._keep(dict(newest))
        return self._since[uuid]


def _read(value: object) -> dict[str, int]:
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {uuid: at for uuid, at in known.items() if isinstance(at, int)}


_NO_PROGRESS_FIX = (
    "look at the container's log; if its input is idle, re-execute the whole run with"
    " verify_timeout_s 0 (from failure it would keep its plan)"
)
_NO_REPORT_FIX = "look at the container's log; Samza's AM starts it again if it has ended"


@dataclass(frozen=True)
class Missing:
    """A sign that a container works, not seen yet, and due within so many seconds of its start.

    `sign` names it in a word or two, `seen` says what was seen so far.
    """

    seen: str
    within_s: float
    sign: str = "runs"
    fix: str = field(default="", compare=False)
    is_lag: bool = False


@dataclass(frozen=True)
class Expected:
    """The signs that a container works, each due within seconds of its start; 0: it isn't waited for.

    An active works when it processes. `former` is the incarnation that it must not be any more. `reports_from` is the host from which a
    standby must have told that it is there: the word of Samza's AM is that it was launched.
    """

    processor: str
    is_active: bool
    verify_s: float
    former: str | None = None
    reports_from: str = ""
    lag_s: float = 0.0

    @property
    def is_awaited(self) -> bool:
        """Return whether a sign of its work is still missing."""
        return self.verify_s > 0 and (self.is_active or bool(self.reports_from))

    def missing(self, found: ProcessorView | None, *, works: bool, lag: str = "") -> Missing | None:
        """Return the first sign that is missing: it runs anew, it works, its lag is small; `lag` is why it isn't."""
        if why := not_running(found, self.former):
            return Missing(why, self.verify_s)
        if works:
            return Missing(lag, self.lag_s, "has its lag back", is_lag=True) if lag else None
        if self.is_active:
            seen = "no input offset grew in a commit since its start"
            return Missing(seen, self.verify_s, "processes", _NO_PROGRESS_FIX)
        seen = f"no word of {self.processor} from {self.reports_from} yet"
        return Missing(seen, self.verify_s, f"reports from {self.reports_from}", _NO_REPORT_FIX)


def not_running(found: ProcessorView | None, former: str | None = None) -> str:
    """Why a container doesn't run, or not as another incarnation than `former`; empty when it does."""
    if found is None:
        return "it is gone"
    if found.state not in (RUNNING, LAST_SEEN_STATE):
        return f"it is {found.state}"
    if former is not None and found.execution_id == former:
        return f"it still runs as {found.execution_id}"
    return ""


@dataclass(frozen=True)
class LagSeen:
    """The most that a container is behind, why that isn't enough, and whether only a report is awaited."""

    records: int | None = None
    why_not: str = ""
    is_up: bool = False


@dataclass
class NewReports:
    """The lag of a restarted container, by what its new process has reported.

    A report counts that its present incarnation signed, or another one than `before`, or that
    wasn't there at the first look. That it reports at all shows that it runs: its first report,
    before its stores are open, has no offset yet.
    """

    before: set[str] = field(default_factory=set[str])
    _former: set[tuple[str, int | None]] | None = None

    def look(
        self, replicas: Sequence[ReplicaLag], execution: str, limit: int, *, shown_by_work: bool
    ) -> LagSeen:
        """Judge these reports; `shown_by_work`: a container that works needs no report."""
        there = {(r.execution_id, r.observed_at_ms) for r in replicas}
        former = self._former = there if self._former is None else self._former

        def is_its_own(report: ReplicaLag) -> bool:
            signed = report.execution_id
            return bool(signed) and (
                signed == execution or bool(self.before and signed not in self.before)
            )

        known = [
            r.lag
            for r in replicas
            if r.lag is not None
            and r.observed_at_ms is not None
            and (is_its_own(r) or (r.execution_id, r.observed_at_ms) not in former)
        ]
        greatest = max(known, default=None)
        if greatest is not None and greatest > limit:
            return LagSeen(greatest, f"it is {greatest:,} records behind, limit {limit:,}")
        if len(known) < len(replicas) and not shown_by_work:
            unread = next((r.reason for r in replicas if r.lag is None and r.reason), None)
            why = f"its lag isn't known: {unread}" if unread else "its lag isn't reported yet"
            return LagSeen(greatest, why, any(is_its_own(r) for r in replicas))
        return LagSeen(greatest)
