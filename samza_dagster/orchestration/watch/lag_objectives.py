"""Objectives for the lag of standbys, in records and in seconds until ready. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from samza_dagster.errors import some_of
from samza_dagster.lag import Applied, last_of, time_to_ready
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.watch.findings import NOTE, CheckFinding, Samples

if TYPE_CHECKING:
    from samza_dagster.client import ReplicaLag
    from samza_dagster.orchestration.watch.settings import LagObjective

OBJECTIVE = "lag_objective"
MOST_FOLLOWED = 200
SAMPLES = 6


def followed(former: Samples, lags: Sequence[ReplicaLag], now_ms: int) -> Samples:
    """The samples with this look's, of the store partitions that are furthest behind.

    A report that was taken in before adds nothing, so looks may be as close as they like.
    """
    behind = [
        lag
        for lag in lags
        if lag.mode is TaskMode.STANDBY and lag.lag and lag.applied_offset is not None
    ]
    worst = sorted(behind, key=lambda lag: (-(lag.lag or 0), lag.processor_id, lag.partition))
    new: dict[str, tuple[Applied, ...]] = {}
    for lag in worst[:MOST_FOLLOWED]:
        key, end = _key(lag), lag.end_offset or 0
        at_ms = lag.observed_at_ms if lag.observed_at_ms is not None else now_ms
        now = Applied(at_ms, end - (lag.lag or 0), end)
        samples = former.get(key, ())
        if samples and (now.applied < samples[-1].applied or at_ms < samples[-1].at_ms):
            samples = ()  # another changelog of that name, or another host's clock
        if not samples or at_ms > samples[-1].at_ms:
            samples = (*samples, now)
        new[key] = samples[-SAMPLES:]
    return new


def breaches(
    objectives: Sequence[LagObjective], lags: Sequence[ReplicaLag], samples: Samples
) -> list[CheckFinding]:
    """Return stores of standbys that break an objective, or whose lag is unknown."""
    of: dict[tuple[str, str], list[ReplicaLag]] = defaultdict(list)
    for lag in lags:
        if lag.mode is TaskMode.STANDBY:
            of[lag.processor_id, lag.store].append(lag)
    found: dict[str, CheckFinding] = {}
    for (processor_id, store), parts in sorted(of.items()):
        for objective in objectives:
            if not objective.covers(processor_id, store):
                continue
            seen = _breach(objective, parts, samples)
            subject = f"{processor_id}/{store}"
            before = found.get(subject)
            if seen and (before is None or before.severity == "WARN"):
                found[subject] = CheckFinding(
                    subject, seen, _fix(processor_id), objective.severity.upper()
                )
    return list(found.values())


def not_followed(
    objectives: Sequence[LagObjective], lags: Sequence[ReplicaLag], samples: Samples
) -> list[CheckFinding]:
    """A note of how many store partitions no objective in seconds can be held against; or none."""
    left_out = [
        lag
        for lag in timed(objectives, lags)
        if lag.lag and lag.applied_offset is not None and _key(lag) not in samples
    ]
    if not left_out:
        return []
    fix = (
        f"the {MOST_FOLLOWED} furthest behind are followed: name fewer standbys or stores in"
        " objectives in seconds; those in records hold for all"
    )
    return [
        CheckFinding("not followed", f"not followed: {len(left_out):,} store partitions", fix, NOTE)
    ]


def timed(objectives: Sequence[LagObjective], lags: Sequence[ReplicaLag]) -> list[ReplicaLag]:
    """The store partitions of standbys for which there is an objective in seconds."""
    rules = [objective for objective in objectives if objective.seconds is not None]
    return [
        lag
        for lag in lags
        if lag.mode is TaskMode.STANDBY
        and any(rule.covers(lag.processor_id, lag.store) for rule in rules)
    ]


def _breach(objective: LagObjective, parts: Sequence[ReplicaLag], samples: Samples) -> str:
    known = [lag.lag for lag in parts if lag.lag is not None]
    if len(known) < len(parts):
        return f"its lag isn't known: {why_not_known(parts)}"
    worst = max(known)
    if objective.records is not None and worst > objective.records:
        return f"{worst:,} records behind, the objective is {objective.records:,}"
    if objective.seconds is None or worst == 0:
        return ""
    # One that is late is so whatever isn't known of the others.
    each = (
        time_to_ready(samples.get(_key(lag), ()), writes_go_on=False) for lag in parts if lag.lag
    )
    ready = last_of([one for one in each if one is not None])
    if ready is None:
        return ""
    if ready.ready_in_ms is None:
        return f"it makes no headway, {worst:,} records behind; the objective is {objective.seconds:g} s"
    if ready.ready_in_ms > objective.seconds * 1000:
        return (
            f"ready in {ready.ready_in_ms / 1000:,.0f} s, the objective is {objective.seconds:g} s"
        )
    return ""


def why_not_known(lags: Iterable[ReplicaLag]) -> str:
    """Why the lag of a standby isn't known, by its store partitions."""
    reasons = sorted({lag.reason for lag in lags if lag.lag is None and lag.reason})
    return some_of(reasons) or "it doesn't report"


def _fix(processor_id: str) -> str:
    return (
        f"samza-dagster lag; if it stands still: samza-dagster place {quote(processor_id)} --to LAST_SEEN;"
        " if its host is slow: job relocate_standby"
    )


def _key(lag: ReplicaLag) -> str:
    return f"{lag.processor_id}/{lag.store}/{lag.partition}"
