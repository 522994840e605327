"""The judge of a bounce's canary: an asset check, or what can be seen of it after the bake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from dagster_shared.check import CheckError

from samza_dagster.errors import InvalidInput, some_of
from samza_dagster.orchestration.operations.back import not_itself
from samza_dagster.orchestration.operations.progress import Progress
from samza_dagster.orchestration.plans.move import ACTIVE
from samza_dagster.orchestration.plans.order import not_running
from samza_dagster.orchestration.plans.units import BounceJudge, UnitsPlan
from samza_dagster.orchestration.text import clock
from samza_dagster.orchestration.watch.evaluations import newest_evaluation

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient


def looked_up(context: dg.OpExecutionContext, judge: BounceJudge) -> list[str]:
    """What the plan has to say of its judge: nothing when it is one of this code location.

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


LOOK_MS = 1_000


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
        elif now_ms - self._looked_ms < LOOK_MS:
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
        idle = not_running(view)
        for row in canary:
            found = view.processors.get(row.processor)
            if found is None:
                return CanaryVerdict(False, f"{row.processor} is gone")
            if why := not_itself(row, found, idle):
                return CanaryVerdict(None, why)
        limits = self._plan.limits
        if self._since is None and limits.verify_timeout_s:
            commits = [row.committed for row in canary if row.committed is not None]
            self._since = max(commits) if commits else self._client.checkpoints_end()
        for row in canary:
            if (
                self._since is not None
                and row.mode == ACTIVE
                and not self._client.processing(row.processor, self._since).processing
            ):
                return CanaryVerdict(
                    None, f"{row.processor} hasn't committed progress since it was back"
                )
        mine = {row.processor: row.mode for row in canary}
        replicas = self._client.lag() if limits.lag_s else ()
        newest = self._client.readiness(replicas)
        for replica in replicas:
            mode = mine.get(replica.processor_id)
            if mode is None:
                continue
            if replica.lag is None and not limits.is_shown_by_work(mode):
                why = replica.reason or "nobody tells"
                return CanaryVerdict(
                    None, f"how far {replica.processor_id} is behind isn't known: {why}"
                )
            limit = newest.limit(
                replica.processor_id, limits.catch_up.lag_limit, limits.catch_up.lag_limit_s
            )
            if replica.lag is not None and replica.lag > limit:
                return CanaryVerdict(
                    None, f"{replica.processor_id} is {replica.lag} records behind"
                )
        return CanaryVerdict(True, "the canary runs, processes and has its lag back")
