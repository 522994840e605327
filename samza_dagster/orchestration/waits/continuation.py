"""A run that waits long ends, and a sensor continues it: waiting holds no worker and no slot.

The run that waits ends as SUCCESS with what it waits for in its tags; the sensor looks at
the lags of all that wait in one read and launches the run that goes on: same job, same
config, same root, so what was asked before is found answered and passes at once.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.orchestration.chain import ROOT, root_run_id
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, job_sensor
from samza_dagster.orchestration.plans.conditions import (
    Met,
    Reported,
    Wait,
    Watched,
    described,
    look,
    met,
)
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import PARTITION
from samza_dagster.orchestration.ticks import since_boot, steady_now
from samza_dagster.orchestration.versioned import Versioned
from samza_dagster.orchestration.waits.waiting import (
    CANCELLED,
    CONTINUED,
    CONTINUES,
    MET,
    WAITING,
    WAITS_FOR,
    YES,
    WaitingRun,
    continued_by,
    re_executed_now,
    waiting_runs,
)

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

SENSOR = "continuations"
MOST_LAUNCHED = 25
GAP_MS = 60_000
MOST_LINES = 20
_RETRIES = {"dagster/max_retries": "1"}
"""Nobody watches a run that a sensor launches hours later: one whose process dies is retried."""
_GIVEN_AT_LAUNCH = frozenset(
    f"dagster/{tag}"
    for tag in (
        "priority",
        "max_retries",
        "retry_strategy",
        "retry_on_asset_or_op_failure",
        "max_runtime",
    )
)
"""Dagster's own tags that a person gives a run: they are meant for all that it is to do."""
_OF_ONE_RUN = (WAITS_FOR, WAITING, CONTINUES, MET, CANCELLED)


def suspend(context: dg.OpExecutionContext, wait: Wait) -> Wait:
    """Tags this run, which is about to end, with what its chain waits for; the wait as tagged.

    It becomes the newest wait of its chain. Until the run has ended as SUCCESS the sensor
    passes it over, so a worker that is killed before that is re-executed as any other.
    """
    root = root_run_id(context)
    runs = context.instance.get_runs(dg.RunsFilter(tags={ROOT: root}))
    known = (Wait.read(run.tags.get(WAITS_FOR)) for run in runs)
    made = replace(
        wait,
        number=1 + max((one.number for one in known if one is not None), default=0),
        run=context.run.run_id,
    )
    tags = {ROOT: root, WAITS_FOR: made.to_text(), WAITING: YES}
    context.instance.add_run_tags(context.run.run_id, tags)
    context.log.info(
        f"waiting for {', '.join(made.who)} goes on without a run: sensor {SENSOR} continues this"
        f" one (chain {root}, wait {made.number}); this run ends as SUCCESS and the ops after this"
        " one are skipped. To give up: job cancel_waiting"
    )
    return made


def seen_before(context: dg.OpExecutionContext) -> Met | None:
    """What the sensor saw before it launched this run; None in any other, also a re-execution."""
    if context.run.parent_run_id is not None:
        return None
    return Met.read(context.run.tags.get(MET))


@dataclass(frozen=True)
class ContinuationCursor(Versioned):
    """By root: since when the replicas of its wait have been steady; `asked`: to be launched.

    `clock` is what the times are by (`steady_now`).
    """

    VERSION: ClassVar[int] = 4

    job: str
    watched: Mapping[str, Watched]
    asked: frozenset[str] = frozenset()
    clock: str = ""

    def by_clock(self, clock: str, now_ms: int) -> "ContinuationCursor":
        """The same by this clock, whose time it is now."""
        if clock == self.clock:
            return self
        watched = {root: one.by_another_clock(now_ms) for root, one in self.watched.items()}
        return ContinuationCursor(self.job, watched, self.asked, clock)


def _continuing_run(one: WaitingRun, why: Met) -> dg.RunRequest:
    """The run that goes on: one for each wait of a chain, whoever asks how often."""
    tags = {
        key: value
        for key, value in one.run.tags.items()
        if key not in _OF_ONE_RUN
        and (not key.startswith("dagster/") or key == PARTITION or key in _GIVEN_AT_LAUNCH)
    }
    return dg.RunRequest(
        run_key=f"{one.root}/{one.wait.number}",
        job_name=one.run.job_name,
        run_config=dict(one.run.run_config),
        tags={
            **_RETRIES,
            **tags,
            ROOT: one.root,
            CONTINUES: str(one.wait.number),
            MET: why.to_text(),
        },
    )


def _noted_as_continued(instance: dg.DagsterInstance, one: WaitingRun) -> bool:
    if continued_by(instance, one) is None:
        return False
    instance.add_run_tags(one.run.run_id, {WAITING: CONTINUED})
    return True


def continuations_sensor(
    jobs: Sequence[Any], interval_s: int = 5, *, running: bool = True, prefix: str = ""
) -> dg.SensorDefinition:
    """`continuations`: launches the run that goes on when what a run waits for has come true.

    `jobs` are those whose runs wait. A tick that is repeated launches nothing twice: the
    run key is of the chain and its wait. After a missed tick, on another machine, or with a new
    cursor, a steady time begins anew, which costs time alone.
    """

    def tick(context: JobTick, samza: SamzaClientResource) -> TickResult:
        job = samza.tag
        former = ContinuationCursor.read(
            context.cursor, job, context.log.warning
        ) or ContinuationCursor(job, {})
        waits = [
            one
            for one in waiting_runs(context.instance, job)
            if one.root not in former.asked or not _noted_as_continued(context.instance, one)
        ]
        if not waits:
            empty = ContinuationCursor(job, {}).to_text()
            return dg.SensorResult(skip_reason="no run waits", cursor=empty)
        try:
            client = samza.open_client()
            try:
                processors = set(client.view().processors)
                reported, unread = _lags_read(client)
            finally:
                client.close()
        except SamzaDagsterError as error:
            return dg.SkipReason(f"{len(waits)} runs wait; the job can't be read: {error}")
        under_way = re_executed_now(context.instance, job)
        now_ms, clock = steady_now(former.clock, time.time_ns() // 1_000_000, *since_boot())
        former = former.by_clock(clock, now_ms)
        gap_ms = max(GAP_MS, 3_000 * interval_s)
        kept: dict[str, Watched] = {}
        requests: list[dg.RunRequest] = []
        asked: set[str] = set()
        lines: list[str] = []
        for one in waits:
            before = former.watched.get(one.root)
            watched = look(one.wait, before, reported, now_ms, gap_ms)
            # A look that saw nobody's lag ends no steady time, nor does it lengthen one.
            kept[one.root] = before if unread and before is not None else watched
            why = met(one.wait, watched, processors)
            if one.run.run_id in under_way:
                lines.append(f"{one.run.job_name} {one.root[:8]}: being re-executed")
            elif why is None:
                line = described(one.wait, watched, reported)
                lines.append(f"{one.run.job_name} {one.root[:8]}: {line}")
            elif len(requests) < MOST_LAUNCHED:
                if one.root not in former.asked and _noted_as_continued(context.instance, one):
                    del kept[one.root]
                    continue
                context.log.info(f"continuing {one.run.job_name} {one.root}: {why.why}")
                requests.append(_continuing_run(one, why))
                asked.add(one.root)
        cursor = ContinuationCursor(job, kept, frozenset(asked), clock).to_text()
        if requests:
            return dg.SensorResult(run_requests=requests, cursor=cursor)
        more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
        more += f"; no lag can be read: {unread}" if unread else ""
        text = (
            f"waiting: {'; '.join(lines[:MOST_LINES])}{more}" if lines else "no run waits any more"
        )
        return dg.SensorResult(skip_reason=text, cursor=cursor)

    return job_sensor(
        SENSOR,
        tick,
        prefix=prefix,
        interval_s=interval_s,
        running=running,
        description="Continues runs that wait for a standby's lag, without holding a worker.",
        jobs=jobs,
    )


def _lags_read(client: "PlacementClient") -> tuple[Reported, str]:
    """The lags; or why none can be read: a deadline is over all the same, and a standby gone."""
    try:
        return Reported.read(client), ""
    except Unreachable as error:
        return Reported.by(()), error.seen or error.asked
