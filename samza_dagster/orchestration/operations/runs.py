"""The runs of operations in a Dagster instance: how far each is by its tags, its log, and events of an asset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.chain import chain_of, read_back, remember, remembered
from samza_dagster.orchestration.history import BOUNCES
from samza_dagster.orchestration.operations.schedule import Progress, UnitStatus
from samza_dagster.orchestration.operations.shown import progress_svg
from samza_dagster.orchestration.plans.units import BounceJudge, UnitsPlan
from samza_dagster.orchestration.show.gallery import hanging
from samza_dagster.orchestration.show.timeline import DRAWN_AT_MOST
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry
from samza_dagster.orchestration.watch.evaluations import newest_evaluations

NAME = "rolling_bounce"
OPERATIONS = (NAME, "drain_host")
"""The jobs whose one run acts on many containers."""
BOUNCE = "samza/bounce"
"""Run tag: the state of a bounce."""
PROGRESS = "samza/progress"
RETRY_NUMBER = "dagster/retry_number"

PLANNED, DRY_RUN, RUNNING = "planned", "dry-run", "running"
DONE, STOPPED, TERMINATED = "done", "stopped", "terminated"
AT_WORK = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
UNDER_WAY = (*AT_WORK, dg.DagsterRunStatus.QUEUED)
MOST = 50


def runs_of(
    instance: dg.DagsterInstance,
    job: str | None = None,
    statuses: Sequence[dg.DagsterRunStatus] = (),
    *,
    actions: Sequence[str] = (NAME,),
) -> list[dg.DagsterRun]:
    """Return the bounces, newest first; of one Samza job, by tag `samza/job`, or of all.

    Dry runs don't count. Other `actions` give other runs.
    """
    wanted: dict[str, str | list[str]] = {ACTION: [*actions]}
    wanted |= {JOB: job} if job else {}
    filters = dg.RunsFilter(tags=wanted, statuses=list(statuses))
    return [run for run in instance.get_runs(filters, limit=MOST) if not is_dry_run(run)]


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the chain of re-executions."""
    return run.root_run_id or run.run_id


def chain(instance: dg.DagsterInstance, root: str) -> list[dg.DagsterRun]:
    """All runs of a bounce, newest first."""
    return [run for run in reversed(chain_of(instance, root)) if not is_dry_run(run)]


def begin(instance: dg.DagsterInstance, run: dg.DagsterRun, state: str) -> None:
    """Tags the run of a bounce with its state.

    Raises `Refused` for a retry that Dagster makes by itself where its parent was over: it was
    terminated, or has ended by its limits, and its process died after that.
    """
    instance.add_run_tags(run.run_id, {BOUNCE: state})
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    ended = parent.tags.get(BOUNCE) if parent is not None else None
    if RETRY_NUMBER in run.tags and ended in (TERMINATED, STOPPED):
        raise Refused(
            "a retry by Dagster itself goes on with a bounce whose worker died",
            seen=f"run {run.parent_run_id} was {ended}",
            fix="re-execute it by hand",
        )


def retried_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """The runs, newest first, that Dagster has retried by itself one after the other, up to `run`."""
    while RETRY_NUMBER in run.tags and run.parent_run_id is not None:
        parent = instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            return
        yield parent
        run = parent


def is_dry_run(run: dg.DagsterRun) -> bool:
    """Return whether it is a dry run, by its config before it has tagged itself."""
    return run.tags.get(BOUNCE) == DRY_RUN or is_dry(run.run_config)


KEY = dg.AssetKey(BOUNCES)
ROW = "row"
JUDGED_AFTER = "judged-after"
"""Results of the judging check that were there when its bake was over, in the chain's memory."""


class RunLedger:
    """The ledger of one run: its log, its tags, and events of the asset `recorded_in` if there is one."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        plan: UnitsPlan,
        recorded_in: dg.AssetKey | None = None,
        partition: str | None = None,
    ) -> None:
        self._context = context
        self._partition = partition
        self._key = recorded_in
        self._plan = plan

    def log(self, text: str, row: Progress | None = None) -> None:
        """A line of the run's log; as JSON it names the request and the group of `row`."""
        group = self._plan.group_of(row.processor) if row else None
        ids = {"request": row.uuid or None, "group": group} if row else {}
        self._context.log.info(text, extra=ids)

    def finished(self, row: Progress, rows: Mapping[str, Progress], done: int) -> None:
        """An observation of the asset, if there is one; its numbers are plotted over time.

        With a picture of all so far; of a large one with a picture at each tenth.
        """
        if self._key is None:
            return
        total = len(rows)
        metadata: dict[str, Any] = {
            "job": self._plan.job,
            "processor": row.processor,
            "host": row.now_on or row.host,
            "outcome": row.status.value,
            "why": row.why,
            "request": row.uuid,
            "done": done,
            "total": total,
            ROW: dg.MetadataValue.json(asdict(row)),
        }
        if row.seconds is not None and not row.has_died:
            metadata["seconds"] = row.seconds
        if row.down_s is not None and not row.has_died:
            metadata["down_seconds"] = row.down_s
        if total <= DRAWN_AT_MOST or done * 10 // total > (done - 1) * 10 // total:
            hang = hanging(self._context.instance, self._context.run_id)
            drawn = hang(progress_svg(rows.values()), f"bounce_{done}")
            metadata = {"progress": drawn, **metadata}
        self._context.log_event(
            dg.AssetObservation(
                self._key,
                description=f"{row.processor}: {row.status}: {row.why} ({done}/{total})",
                partition=self._partition,
                metadata=metadata,
            )
        )

    def progress(self, text: str) -> None:
        """Run tag `samza/progress`, which lists of runs show."""
        self._context.log.info(f"progress: {text}")
        self._context.instance.add_run_tags(self._context.run_id, {PROGRESS: text})

    def check_passed(self) -> bool | None:
        """Return the first result of the plan's asset check since this was asked first, after the bake."""
        return None if self._plan.judge is None else check_result(self._context, self._plan.judge)


def check_result(context: dg.OpExecutionContext, judge: BounceJudge) -> bool | None:
    """Return whether the first result passed that wasn't there when a run of the chain asked first.

    None while there is no such result. That run remembers which were there.
    """
    instance, run = context.instance, context.run
    key = dg.AssetCheckKey(dg.AssetKey(judge.asset.split("/")), judge.check)
    found = newest_evaluations(instance, key)
    earlier = reversed(chain(instance, root_of(run)))
    before = next(iter(remembered(earlier, JUDGED_AFTER)), None)
    if before is None:
        remember(instance, run.run_id, JUDGED_AFTER, sorted(found))
        return None
    new = [one for number, one in found.items() if number not in before]
    first = min(new, key=lambda one: one[1], default=None)
    return None if first is None else first[0].passed


def recorded(instance: dg.DagsterInstance, chain: Iterable[dg.DagsterRun]) -> list[Progress]:
    """Return the records of a chain's runs, oldest first if the runs are."""
    rows: list[Progress] = []
    kind = dg.DagsterEventType.ASSET_OBSERVATION
    for run in chain:
        for entry in instance.all_logs(run.run_id, of_type=kind):
            observed = entry.asset_observation
            if observed is not None and observed.asset_key.path[-1] == BOUNCES:
                rows.append(row_of(observed.metadata))
    return rows


def known_back(instance: dg.DagsterInstance, root: str) -> dict[str, Progress]:
    """Processors that a run of this bounce saw back, by their newest record."""
    all_runs = reversed(chain(instance, root))
    newest = {row.processor: row for row in recorded(instance, all_runs)}
    return {p: row for p, row in newest.items() if row.status is UnitStatus.BACK}


def failed_before(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, Progress]:
    """Failures that count on in this run: those that its dead worker's runs recorded.

    Only Dagster's own retries have any: a person who re-executes a run wants to try the failed units
    again.
    """
    parents = reversed([*retried_by(instance, run)])
    newest = {row.processor: row for row in recorded(instance, parents)}
    return {p: row for p, row in newest.items() if row.status is UnitStatus.FAILED}


def row_of(metadata: Mapping[str, dg.MetadataValue[Any]]) -> Progress:
    """The row that an observation has kept."""
    return read_back(Progress, metadata[ROW].value)
