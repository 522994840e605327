"""Whether there is the check that is to judge a canary: looked up before anybody is restarted."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import dagster as dg
from dagster_shared.check import CheckError

from samza_dagster.errors import InvalidInput, some_of
from samza_dagster.orchestration.plans.bounce import BounceJudge
from samza_dagster.orchestration.show.pictures import clock
from samza_dagster.orchestration.watch.evaluations import newest_evaluation


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
