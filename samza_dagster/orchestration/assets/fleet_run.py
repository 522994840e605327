"""What a run of `fleet_overview` does: looks at each job once, and at what Dagster has recorded."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.orchestration.history.names import BOUNCES, HISTORY
from samza_dagster.orchestration.operations import control
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.map_picture import natural
from samza_dagster.orchestration.show.pictures import in_words
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.tags import ACTION, JOB
from samza_dagster.orchestration.watch import invariants
from samza_dagster.orchestration.watch.check_tick import read_lags

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ReplicaLag

AT_ONCE = 8
SHOWN_ACTIONS, SHOWN_HOSTS, MOST_EVENTS = 3, 6, 5_000
WEEK = timedelta(days=7)
COLUMNS: Mapping[str, str] = {
    "job": "<job.name>/<job.id>",
    "state": "what somebody should look at, else: well",
    "now": "actions under way, and bounces, drains and reconciliations with how far they are",
    "waits": "actions that wait, runs in Dagster's queue, and what is paused",
    "worst_lag": "records that its furthest standby is behind, of those of which it is known; empty: of none",
    "standby_debt": "standbys that are missing",
    "moves_7d": "requests that ended in the last seven days: succeeded / failed",
    "bounced_7d": "containers that were bounced in the last seven days",
    "hosts": "hosts with a container of it, and how many it has",
    "owner": "who coordinates it",
}
"""In this order: what has no room on the screen is to the right, and should be what is asked last."""


@dataclass(frozen=True)
class Line:
    """A job at a glance. `troubles` are what somebody should look at, the worst first."""

    job: str
    troubles: tuple[str, ...] = ()
    owner: str = ""
    hosts: tuple[str, ...] = ()
    containers: int = 0
    worst_lag: int | None = None
    standby_debt: int | None = None
    now: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    moves: tuple[int, int] = (0, 0)
    bounced: int = 0


def overview_now(
    context: dg.AssetExecutionContext, samza: SamzaClientResource
) -> dg.MaterializeResult[Any]:
    """The asset's materialization. A job that can't be read says so, and hides no other."""
    since = datetime.now(UTC) - WEEK
    moves = events_of_a_week(context.instance, samza.asset_key(HISTORY), since, "succeeded")
    bounces = events_of_a_week(context.instance, samza.asset_key(BOUNCES), since, "done")
    now, waits = runs_of_jobs(context.instance)
    each = samza.each()
    with ThreadPoolExecutor(AT_ONCE, "fleet") as pool:
        seen = list(pool.map(looked_at, each))
    lines = [
        replace(
            line,
            now=(*now[one.tag], *line.now),
            waits=(*line.waits, *waits[one.tag]),
            moves=(moves[line.job, True], moves[line.job, False]),
            bounced=bounces[line.job, True] + bounces[line.job, False],
        )
        for one, line in zip(each, seen, strict=True)
    ]
    return dg.MaterializeResult(metadata=shown(lines))


def runs_of_jobs(
    instance: dg.DagsterInstance,
) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """What Dagster itself has under way, and what waits there, by the value of tag `samza/job`.

    A run that asks a coordinator for one action is seen there; here are those that ask for many.
    """
    now, waits = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for run in control.bounces(instance, statuses=control.AT_WORK, actions=control.STEERED_JOBS):
        now[run.tags.get(JOB, "")].append(_told(run))
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])):
        if ACTION in run.tags:
            waits[run.tags.get(JOB, "")].append(f"{run.tags[ACTION]} is queued in Dagster")
    for action in control.STEERED_JOBS:
        for run in control.paused(instance, action=action):
            waits[run.tags.get(JOB, "")].append(_told(run))
    return now, waits


def _told(run: dg.DagsterRun) -> str:
    state, progress = control.state_of(run), run.tags.get(control.PROGRESS)
    return f"{run.tags[ACTION]} is {state}" + (f": {progress}" if progress else "")


def looked_at(samza: SamzaClientResource) -> Line:
    """One job, by a client that is closed after it."""
    try:
        client = samza.open_client()
        try:
            return line_of(samza.job, client.view(), read_lags(client), _now_ms)
        finally:
            client.close()
    except SamzaDagsterError as error:
        return Line(samza.job, (f"can't be read: {error}",))


def line_of(
    job: str,
    view: JobView,
    lags: Sequence[ReplicaLag] | Unreachable,
    now_ms: Callable[[], int],
) -> Line:
    """The job as its view and its lags tell it. Pure but for the clock."""
    findings = [*invariants.coordinated(view), *invariants.replicas_present(view)]
    if not isinstance(lags, Unreachable):
        findings += invariants.changelogs_there(lags)
    dead = invariants.not_dead(view)
    troubles = [f"{each.subject}: {each.seen}" for each in (*dead, *findings)]
    known = [] if isinstance(lags, Unreachable) else [
        lag.lag for lag in lags if view.is_standby(lag.processor_id) and lag.lag is not None
    ]  # fmt: skip

    def described(action: Any) -> str:
        since = in_words(max(0, now_ms() - action.since_ms) / 1000)
        return (
            f"{action.kind} {action.processor_id} to {action.destination}: {action.stage}, {since}"
        )

    hosts = {p.host for p in view.processors.values() if p.host}
    return Line(
        job,
        tuple(troubles),
        owner_of(view),
        tuple(sorted(hosts, key=natural)),
        len(view.processors),
        max(known, default=None),
        sum(wanted - has for has, wanted in invariants.missing_standbys(view).values()),
        tuple(map(described, view.actions)),
        tuple(map(described, view.queued)),
    )


def owner_of(view: JobView) -> str:
    """Who coordinates the job."""
    if view.agreement is not None:
        return f"standalone, led by {view.agreement.leader or 'nobody'}"
    leader = view.leader
    if leader is not None:
        return f"our coordinator on {leader.host}{', which ended' if leader.ended else ''}"
    return "nobody known" if view.capabilities.shows_its_life else "Samza's Application Master"


def events_of_a_week(
    instance: dg.DagsterInstance, key: dg.AssetKey, since: datetime, good: str
) -> Counter[tuple[str, bool]]:
    """How many of an asset's events each job has, (job, whether `good` isn't 0)."""
    found: Counter[tuple[str, bool]] = Counter()
    wanted = dg.AssetRecordsFilter(key, after_timestamp=since.timestamp())
    for record in instance.fetch_materializations(wanted, limit=MOST_EVENTS).records:
        event = record.asset_materialization
        if event is not None and "job" in event.metadata:
            found[str(event.metadata["job"].value), _is(event.metadata.get(good))] += 1
    for record in instance.fetch_observations(wanted, limit=MOST_EVENTS).records:
        event = record.event_log_entry.asset_observation
        if event is not None and good in event.metadata and "job" in event.metadata:
            found[str(event.metadata["job"].value), _is(event.metadata.get(good))] += 1
    return found


def shown(lines: Sequence[Line]) -> dict[str, Any]:
    """The table, jobs with trouble first, and the figures that the UI plots."""
    order = sorted(lines, key=lambda line: (not line.troubles, natural(line.job)))
    known = [line.worst_lag for line in lines if line.worst_lag is not None]
    return {
        "summary": _summary(lines),
        "jobs": table([_row(line) for line in order], tuple(COLUMNS), COLUMNS),
        "jobs_with_trouble": sum(bool(line.troubles) for line in lines),
        "standby_debt": sum(line.standby_debt or 0 for line in lines),
        **({"worst_lag_records": max(known)} if known else {}),
        "actions": sum(len(line.now) for line in lines),
        "waiting": sum(len(line.waits) for line in lines),
        "dagster/row_count": len(lines),
    }


def _summary(lines: Sequence[Line]) -> str:
    """The first thing that a person wants to know."""
    bad = [line.job for line in lines if line.troubles]
    missing = sum(line.standby_debt or 0 for line in lines)
    now, waits = sum(len(line.now) for line in lines), sum(len(line.waits) for line in lines)
    parts = [
        f"well: {len(lines) - len(bad)} of {len(lines)} jobs",
        *([f"to look at: {_cut(bad, SHOWN_HOSTS, ', ')}"] if bad else []),
        f"standbys missing: {missing}",
        f"under way: {now}, waiting: {waits}",
    ]
    return "; ".join(parts)


def _row(line: Line) -> dict[str, Any]:
    succeeded, failed = line.moves
    return {
        "job": line.job,
        "state": _cut(line.troubles, SHOWN_ACTIONS) or "well",
        "owner": line.owner,
        "hosts": f"{_cut(line.hosts, SHOWN_HOSTS, ', ')} ({line.containers} containers)"
        if line.containers
        else "",
        "worst_lag": line.worst_lag,
        "standby_debt": line.standby_debt,
        "now": _cut(line.now, SHOWN_ACTIONS) or "-",
        "waits": _cut(line.waits, SHOWN_ACTIONS) or "-",
        "moves_7d": f"{succeeded} / {failed}",
        "bounced_7d": line.bounced,
    }


def _cut(parts: Sequence[str], most: int, by: str = "; ") -> str:
    more = len(parts) - most
    return by.join(parts[:most]) + (f"{by}and {more} more" if more > 0 else "")


def _is(value: dg.MetadataValue[Any] | None) -> bool:
    return value is not None and bool(value.value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
