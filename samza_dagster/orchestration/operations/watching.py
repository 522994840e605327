"""Watch containers that a bounce has restarted: judge the canary, watch the others until the end.

Our coordinator reports what runs, and as which incarnation. Samza's AM doesn't, so under it nothing
shows that a container died after it was back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg
from dagster_shared.check import CheckError

from samza_dagster.client.responses import details_of
from samza_dagster.errors import InvalidInput, some_of
from samza_dagster.model import PlacementResponse
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import STANDBY
from samza_dagster.orchestration.operations.schedule import Progress, UnitStatus
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.move import ACTIVE
from samza_dagster.orchestration.plans.order import not_running
from samza_dagster.orchestration.plans.units import BounceJudge, UnitsPlan
from samza_dagster.orchestration.text import clock
from samza_dagster.orchestration.watch.evaluations import newest_evaluation

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ProcessorView

DOWN_LOOK_MS, CANARY_LOOK_MS = 2_000, 1_000
SETTLES_MS = 5_000
"""The time by which one topic may lag the other: an answer and its state are in two topics."""
_DOWN_FOR_IT = ("stopping", "starting", "fallback-source", "fallback-any")
_STANDBY_DOWN_FOR_IT = ("stopping-standby", "reserving", *_DOWN_FOR_IT)


@dataclass(frozen=True)
class Since:
    """The state of containers that were back, by processor.

    `unsettled`: another process than the one seen back, and it isn't known yet whether somebody asked
    for it. `died`: nobody asked. `renewed`: another process that somebody asked for.
    """

    unsettled: Mapping[str, str] = field(default_factory=dict[str, str])
    died: Mapping[str, str] = field(default_factory=dict[str, str])
    renewed: Mapping[str, ProcessorView] = field(default_factory=dict[str, "ProcessorView"])


def not_itself(row: Progress, found: ProcessorView, idle: Mapping[str, str]) -> str:
    """The reason why it isn't the process that was seen back; empty while it is, or if unknown."""
    if found.processor_id in idle:
        return idle[found.processor_id]
    now = found.execution_id
    if not row.execution or now is None or now == row.execution:
        return ""
    return f"{found.processor_id} runs as {now}, no longer as {row.execution}"


class BackWatch:
    """Looks at those that are back until their bounce ends.

    A new deployment counts as asking for all its restarts.
    """

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._deployment: dict[str, str | None] = {}
        self._first_ms: dict[str, int] = {}
        self._asked_for: set[str] = set()
        self._by: dict[str, int] = {}

    def look(
        self, view: JobView, rows: Mapping[str, Progress], ours: Collection[str], now_ms: int
    ) -> Since:
        """Look at restarted containers; `ours` are the requests of this bounce. Raises `Unreachable`."""
        if not capabilities(view.coordinator).tells_what_runs:
            return Since()
        idle = not_running(view)
        unsettled: dict[str, str] = {}
        died: dict[str, str] = {}
        renewed: dict[str, ProcessorView] = {}
        for p, row in rows.items():
            found = view.processors.get(p)
            why = not_itself(row, found, idle) if found and row.status is UnitStatus.BACK else ""
            if found is None or not why:
                self._first_ms.pop(p, None)
                self._asked_for.discard(p)
                if row.status is UnitStatus.BACK:
                    self._deployment[p] = view.deployment_id
            elif self._is_asked_for(p, row, view, ours, now_ms):
                self._first_ms.pop(p, None)
                if p not in idle:
                    renewed[p] = found
            elif now_ms - self._first_ms.setdefault(p, now_ms) < SETTLES_MS:
                unsettled[p] = why
            else:
                died[p] = why
        return Since(unsettled, died, renewed)

    def _is_asked_for(
        self, p: str, row: Progress, view: JobView, ours: Collection[str], now_ms: int
    ) -> bool:
        """Return whether somebody else asks for it, or for an active that takes its place."""
        if p in self._asked_for:
            return True
        found = (
            self._deployment.get(p, view.deployment_id) != view.deployment_id
            or any(failover.standby_id == p for failover in view.failovers)
            or any(
                action.stage in _DOWN_FOR_IT
                if action.processor_id == p
                else view.group_of(action.processor_id) == view.group_of(p)
                and action.destination == STANDBY
                and action.stage in _STANDBY_DOWN_FOR_IT
                for action in view.actions
                if action.uuid not in ours
            )
            or self._was_asked_for(p, row, ours)
        )
        if found:
            self._asked_for.add(p)
        return found

    def _was_asked_for(self, p: str, row: Progress, ours: Collection[str]) -> bool:
        """Return whether an answer newer than its own restart, and than one that counted before, asked for it.

        The coordinator dates them all.
        """
        since = max(row.in_ms or 0, self._by.get(p, 0))
        newest = max(
            (
                response.timestamp
                for response in self._client.history()
                if response.uuid not in ours and _has_stopped(response, p)
            ),
            default=0,
        )
        if newest <= since:
            return False
        self._by[p] = newest
        return True


def _has_stopped(response: PlacementResponse, p: str) -> bool:
    details = details_of(response)
    return p == details.started or p in details.stopped


@dataclass
class Down:
    """Containers that a bounce has failed to restart, as long as they don't run.

    Our coordinator tells whether a container runs. Samza's AM doesn't: a container that was stopped and
    failed to start counts as down until something new of its own appears, a commit or a report,
    since that was looked at first.
    """

    client: PlacementClient
    _works: set[str] = field(default_factory=set[str])
    _due_ms: int = 0
    _since: dict[str, int] = field(default_factory=dict[str, int])

    def among(self, view: JobView, rows: Mapping[str, Progress], now_ms: int) -> dict[str, str]:
        """Processor → why it counts as down. Raises `Unreachable`."""
        idle, tells = not_running(view), capabilities(view.coordinator).tells_what_runs
        down: dict[str, str] = {}
        untold: dict[str, Progress] = {}
        for p, row in rows.items():
            # A person who resumes a bounce tries failed units again, so the unit waits then.
            again = row.status is UnitStatus.WAITING and row.attempt > 0
            if not again and row.status is not UnitStatus.FAILED:
                continue
            if p in idle:
                down[p] = idle[p]
            elif not tells and row.failed_ms is not None and p not in self._works:
                untold[p] = row
        if untold and now_ms >= self._due_ms:
            self._due_ms = now_ms + DOWN_LOOK_MS
            self._works |= self._at_work(untold)
        why = "was stopped and nobody tells that it runs"
        return down | {p: f"{p} {why}" for p in untold if p not in self._works}

    def _at_work(self, rows: Mapping[str, Progress]) -> set[str]:
        lags = self.client.lag() if any(row.mode != ACTIVE for row in rows.values()) else ()
        reported = {r.processor_id: r.reported_ms for r in lags if r.reported_ms is not None}
        found: set[str] = set()
        for p, row in rows.items():
            if row.mode != ACTIVE:
                report = reported.get(p, 0)
                works = report not in (0, self._since.setdefault(p, report))
            else:
                since = self._since.get(p)
                if since is None:
                    since = self._since[p] = self.client.checkpoints_end()
                works = self.client.processing(p, since).processing
            if works:
                found.add(p)
        return found


def looked_up(context: dg.OpExecutionContext, judge: BounceJudge) -> list[str]:
    """Return the plan's notices about its judge: none when it is one of this code location.

    A run knows its own code location and what was ever evaluated, no other code location.
    Raises `InvalidInput`, with what there is, when neither has the check.
    """
    key = dg.AssetCheckKey(dg.AssetKey(judge.asset.split("/")), judge.check)
    there = _of_this_location(context)
    if there is not None and key in there:
        return []
    name = f"check `{judge.check}` of asset `{judge.asset}`"
    evaluated = newest_evaluation(context.instance, key)
    if evaluated is not None:
        at = f"{clock(int(evaluated[1] * 1000))} UTC"
        return [f"{name} isn't known to this code location; it was last evaluated at {at}"]
    if there is None:
        return [
            f"{name} was never evaluated: whether there is such a check isn't known to this run"
        ]
    checks = sorted(one.name for one in there if one.asset_key == key.asset_key)
    assets = sorted({one.asset_key.to_user_string() for one in there})
    fix = "name one of these; one of another code location is known once it was evaluated"
    if checks:
        raise InvalidInput(
            f"judge_check {judge.check!r} of asset {judge.asset}",
            seen=f"its checks are {some_of(checks)}",
            fix=fix,
        )
    raise InvalidInput(
        f"judge_asset {judge.asset!r}",
        seen=f"assets with checks are {some_of(assets)}" if assets else "no asset has a check",
        fix=fix,
    )


def _of_this_location(context: dg.OpExecutionContext) -> AbstractSet[dg.AssetCheckKey] | None:
    """All its checks; None in a run that was started without its code location, as in a test."""
    try:
        return context.repository_def.asset_graph.asset_check_keys
    except CheckError:
        return None


@dataclass(frozen=True)
class CanaryVerdict:
    """A judge's yes, no, or None: not yet; and why."""

    passed: bool | None
    why: str


class CanaryWatch:
    """Judges once; `passed` is its word from then on.

    `check_passed` says what the plan's asset check found since that was asked first.
    """

    def __init__(
        self,
        client: PlacementClient,
        plan: UnitsPlan,
        check_passed: Callable[[], bool | None],
    ) -> None:
        self.passed: bool | None = None
        self._client = client
        self._plan = plan
        self._check_passed = check_passed
        self._began_ms: int | None = None
        self._since: int | None = None
        self._looked_ms = 0

    def judge(self, view: JobView, rows: Mapping[str, Progress], now_ms: int) -> CanaryVerdict:
        """The word on the canary after its bake, at most a look a second."""
        if self._began_ms is None:
            self._began_ms = now_ms
        elif now_ms - self._looked_ms < CANARY_LOOK_MS:
            return CanaryVerdict(None, "the canary is judged")
        self._looked_ms = now_ms
        units = self._plan.order[: self._plan.schedule.canaries]
        canary = [rows[p] for unit in units for p in unit.members if rows[p].back_ms is not None]
        verdict = self._ask_check() if self._plan.judge else self._look(view, canary)
        if verdict.passed is None and now_ms - self._began_ms > self._patience_s() * 1000:
            verdict = CanaryVerdict(
                False, f"{verdict.why} within {self._patience_s():g} s of the bake"
            )
        self.passed = verdict.passed
        return verdict

    def _patience_s(self) -> float:
        judge, limits = self._plan.judge, self._plan.limits
        return judge.timeout_s if judge else max(limits.verify_timeout_s, limits.lag_s, 1.0)

    def _ask_check(self) -> CanaryVerdict:
        judge = self._plan.judge
        assert judge is not None
        name = f"check {judge.check} of {judge.asset}"
        # A result that was there before the bake's end says nothing of the bake.
        said = self._check_passed()
        if said is None:
            return CanaryVerdict(None, f"no result of {name} since the bake")
        return CanaryVerdict(said, f"{name} {'passed' if said else 'failed'}")

    def _look(self, view: JobView, canary: list[Progress]) -> CanaryVerdict:
        """A commit or a lag may take its time; so may a restart that somebody else asked for.

        One that died by itself has failed, which ends the bounce before this does.
        """
        idle, limits = not_running(view), self._plan.limits
        for row in canary:
            found = view.processors.get(row.processor)
            if found is None:
                return CanaryVerdict(False, f"{row.processor} is gone")
            if why := not_itself(row, found, idle):
                return CanaryVerdict(None, why)
        if self._since is None and limits.verify_timeout_s:
            commits = [row.committed for row in canary if row.committed is not None]
            self._since = max(commits) if commits else self._client.checkpoints_end()
        reported = Reported.read(self._client) if limits.lag_s else Reported.by(())
        for row in canary:
            p, lag = row.processor, reported.lags.get(row.processor, 0)
            since = self._since if row.mode == ACTIVE else None
            if since is not None and not self._client.processing(p, since).processing:
                why = f"{p} hasn't committed progress since it was back"
            elif lag is None and not limits.is_shown_by_work(row.mode):
                told = reported.reasons.get(p, "nobody tells")
                why = f"how far {p} is behind isn't known: {told}"
            elif lag is not None and lag > reported.limit(p, limits.catch_up):
                why = f"{p} is {lag} records behind"
            else:
                continue
            return CanaryVerdict(None, why)
        return CanaryVerdict(True, "the canary runs, processes and has its lag back")
