"""`fleet_overview`: each Samza job of a component at a glance, by one look at each and by what Dagster has recorded."""

# No `from __future__ import annotations`: Dagster reads the annotations of assets as types.

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.history import BOUNCES, GROUP, HISTORY
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.operations import runs
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.tags import ACTION, JOB, job_tags
from samza_dagster.orchestration.text import in_words, natural
from samza_dagster.orchestration.watch import invariants
from samza_dagster.orchestration.watch.checks import read_lags

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ReplicaLag
    from samza_dagster.client.views import ActionView

OVERVIEW = "fleet_overview"
AT_ONCE = 8
SHOWN_ACTIONS, SHOWN_HOSTS, MOST_EVENTS = 3, 6, 5_000
WEEK = timedelta(days=7)
COLUMNS: Mapping[str, str] = {
    "job": "<job.name>/<job.id>",
    "state": "what somebody should look at, else: well",
    "now": "actions under way, and bounces and drains with how far they are",
    "waits": "actions that wait, and runs in Dagster's queue",
    "worst_lag": "records that its furthest standby is behind, of those of which it is known; empty: of none",
    "standby_debt": "standbys that are missing",
    "moves_7d": "requests that ended in the last seven days: succeeded / failed",
    "bounced_7d": "containers that were bounced in the last seven days",
    "hosts": "hosts with a container of it, and how many it has",
    "owner": "its coordinator",
}
"""The columns, the most wanted first: those that don't fit the screen are at the right."""


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


def fleet_overview(prefix: str = "") -> dg.AssetsDefinition:
    """The asset of a component, of all its Samza jobs; needs no Spark."""
    samza = named(prefix, "samza")

    @dg.asset(  # pyright: ignore[reportUnknownMemberType]
        name=OVERVIEW,
        key_prefix=prefix or None,
        group_name=GROUP,
        kinds={"kafka"},
        required_resource_keys={samza},
        description="Each Samza job at a glance: its state, its coordinator, its hosts, the worst"
        " lag, standbys that are missing, what runs now and what waits, and the last week's moves and"
        " bounces.",
    )
    def look(context: dg.AssetExecutionContext, config: SaidConfig) -> dg.MaterializeResult[Any]:
        return overview_now(context, getattr(context.resources, samza))

    return look


def fleet_job(job: str, prefix: str = "") -> Any:
    """`look_at_fleet`: the overview in a run."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]
        named(prefix, "look_at_fleet"),
        selection=dg.AssetSelection.assets(asset_key(prefix, OVERVIEW)),
        executor_def=dg.in_process_executor,
        tags=job_tags(job, "look_at_fleet"),
        description="Looks at each Samza job once, for `fleet_overview`. Changes nothing.",
    )


def overview_now(
    context: dg.AssetExecutionContext, samza: SamzaClientResource
) -> dg.MaterializeResult[Any]:
    """The asset's materialization. A job that can't be read says so, and hides no other."""
    instance, since_s = context.instance, (datetime.now(UTC) - WEEK).timestamp()

    def week(
        name: str, fetch: Callable[..., dg.EventRecordsResult]
    ) -> list[Mapping[str, dg.MetadataValue[Any]]]:
        wanted = dg.AssetRecordsFilter(samza.asset_key(name), after_timestamp=since_s)
        events = (record.asset_event for record in fetch(wanted, limit=MOST_EVENTS).records)
        told = (event.metadata for event in events if event is not None)
        return [each for each in told if "job" in each]

    ended = week(HISTORY, instance.fetch_materializations)
    moves = Counter((str(one["job"].value), bool(one["succeeded"].value)) for one in ended)
    bounced = Counter(str(one["job"].value) for one in week(BOUNCES, instance.fetch_observations))
    now, waits = runs_of_jobs(instance)
    each = samza.each()
    with ThreadPoolExecutor(AT_ONCE, "fleet") as pool:
        seen = list(pool.map(looked_at, each))
    lines = [
        replace(
            line,
            now=(*now[one.tag], *line.now),
            waits=(*line.waits, *waits[one.tag]),
            moves=(moves[line.job, True], moves[line.job, False]),
            bounced=bounced[line.job],
        )
        for one, line in zip(each, seen, strict=True)
    ]
    return dg.MaterializeResult(metadata=shown(lines))


def runs_of_jobs(
    instance: dg.DagsterInstance,
) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Return Dagster's running and waiting runs by the value of tag `samza/job`.

    A run that asks a coordinator for one action is seen there; here are those that ask for many.
    """
    now, waits = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for run in runs.runs_of(instance, statuses=runs.AT_WORK, actions=runs.OPERATIONS):
        progress = f": {run.tags[runs.PROGRESS]}" if runs.PROGRESS in run.tags else ""
        now[run.tags.get(JOB, "")].append(f"{run.tags[ACTION]} runs{progress}")
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])):
        if ACTION in run.tags:
            waits[run.tags.get(JOB, "")].append(f"{run.tags[ACTION]} is queued in Dagster")
    return now, waits


def looked_at(samza: SamzaClientResource) -> Line:
    """Read one job, by a client that is closed after it."""
    try:
        with closing(samza.open_client()) as client:
            now_ms = time.time_ns() // 1_000_000
            return line_of(samza.job, client.view(), read_lags(client), now_ms)
    except SamzaDagsterError as error:
        return Line(samza.job, (f"can't be read: {error}",))


def line_of(
    job: str, view: "JobView", lags: "Sequence[ReplicaLag] | Unreachable", now_ms: int
) -> Line:
    """The job as its view and its lags tell it. Pure."""
    known: list[int] = []
    findings = [*invariants.not_dead(view), *invariants.coordinated(view)]
    findings += invariants.replicas_present(view)
    if not isinstance(lags, Unreachable):
        findings += invariants.changelogs_there(lags)
        known = [x.lag for x in lags if view.is_standby(x.processor_id) and x.lag is not None]

    def described(action: "ActionView") -> str:
        since = in_words(max(0, now_ms - action.since_ms) / 1000)
        return (
            f"{action.kind} {action.processor_id} to {action.destination}: {action.stage}, {since}"
        )

    return Line(
        job,
        tuple(f"{each.subject}: {each.seen}" for each in findings),
        coordinator_of(view),
        tuple(sorted({p.host for p in view.processors.values() if p.host}, key=natural)),
        len(view.processors),
        max(known, default=None),
        sum(wanted - has for has, wanted in invariants.missing_standbys(view).values()),
        tuple(map(described, view.actions)),
        tuple(map(described, view.queued)),
    )


def coordinator_of(view: "JobView") -> str:
    """Name the coordinator of the job."""
    if view.agreement is not None:
        return f"standalone, led by {view.agreement.leader or 'nobody'}"
    leader = view.leader
    if leader is not None:
        return f"our coordinator on {leader.host}{', which ended' if leader.ended else ''}"
    return "nobody known" if view.capabilities.shows_its_life else "Samza's Application Master"


def shown(lines: Sequence[Line]) -> dict[str, Any]:
    """The table, jobs with trouble first, and the figures that the UI plots."""
    order = sorted(lines, key=lambda line: (not line.troubles, natural(line.job)))
    bad = [line.job for line in lines if line.troubles]
    known = [line.worst_lag for line in lines if line.worst_lag is not None]
    missing = sum(line.standby_debt or 0 for line in lines)
    now, waits = sum(len(line.now) for line in lines), sum(len(line.waits) for line in lines)
    look_at = f"to look at: {_cut(bad, SHOWN_HOSTS, ', ')}; " if bad else ""
    return {
        "summary": f"well: {len(lines) - len(bad)} of {len(lines)} jobs; {look_at}standbys missing:"
        f" {missing}; under way: {now}, waiting: {waits}",
        "jobs": table([_row(line) for line in order], tuple(COLUMNS), COLUMNS),
        "jobs_with_trouble": len(bad),
        "standby_debt": missing,
        **({"worst_lag_records": max(known)} if known else {}),
        "actions": now,
        "waiting": waits,
        "dagster/row_count": len(lines),
    }


def _row(line: Line) -> dict[str, Any]:
    on = f"{_cut(line.hosts, SHOWN_HOSTS, ', ')} ({line.containers} containers)"
    return {
        "job": line.job,
        "state": _cut(line.troubles, SHOWN_ACTIONS) or "well",
        "owner": line.owner,
        "hosts": on if line.containers else "",
        "worst_lag": line.worst_lag,
        "standby_debt": line.standby_debt,
        "now": _cut(line.now, SHOWN_ACTIONS) or "-",
        "waits": _cut(line.waits, SHOWN_ACTIONS) or "-",
        "moves_7d": " / ".join(map(str, line.moves)),
        "bounced_7d": line.bounced,
    }


def _cut(parts: Sequence[str], most: int, by: str = "; ") -> str:
    more = len(parts) - most
    return by.join(parts[:most]) + (f"{by}and {more} more" if more > 0 else "")
