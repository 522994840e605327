"""`samza-dagster bounce`: rolling bounces of a Dagster instance, shown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samza_dagster.cli.dagster_instance import dagster_instance, home_option
from samza_dagster.cli.options import (
    job_options,
    json_option,
    not_empty,
    prefix_option,
)
from samza_dagster.cli.output import at, busy, print_json, print_table
from samza_dagster.errors import InvalidInput

if TYPE_CHECKING:
    import dagster as dg

    from samza_dagster.orchestration.operations.progress import Progress

_SHOWN = 10
_NOT_YET = "not yet"
"""Of a container without a record: it waits, is in flight, or has left the job."""


def _bounce_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds which instance and which job; the command gets `home` and `job`."""

    @functools.wraps(command)
    def with_job(*args: Any, job: str, prefix: str, **rest: Any) -> Any:
        from samza_dagster.orchestration.tags import job_tag

        if prefix and not job:
            raise InvalidInput(
                f"bounces of a job under prefix {prefix}",
                seen="no --job-name",
                fix=f"--job-name NAME --prefix {prefix}",
            )
        return command(*args, job=job_tag(job, prefix) if job else None, **rest)

    return job_options(prefix_option(home_option(with_job)))


@click.group("bounce")
def bounce() -> None:
    """Show the rolling bounces that a Dagster instance runs.

    \b
    Examples:
      samza-dagster bounce status
    """


@bounce.command("status", short_help="Show the newest bounces, or one with its containers.")
@click.argument("run", required=False, callback=not_empty)
@json_option
@_bounce_options
def status(*, run: str | None, job: str | None, home: Path, as_json: bool) -> None:
    """Show the newest bounces; with RUN, a run's id or its first characters, each container of one.

    A container is back, failed, stuck, or not yet any of these: it waits or is in flight, of which
    the run's log tells.

    \b
    Examples:
      samza-dagster bounce status
      samza-dagster bounce status 3f2a --json | jq '.processors[] | select(.status == "failed")'
    """
    from samza_dagster.orchestration.operations import record, runs

    with busy("Reading the Dagster instance …"), dagster_instance(home) as instance:
        if run:
            found = [runs.find(instance, run, job)]
            chain = runs.chain(instance, runs.root_of(found[0]))
            rows = record.all_rows(instance, chain)
        else:
            found, rows = runs.runs_of(instance, job, limit=_SHOWN), {}
        shown = [_run(instance, one) for one in found]
    if as_json:
        processors = [_plain(row) for row in rows.values()]
        print_json({"bounce": shown[0], "processors": processors} if run else {"bounces": shown})
        return
    print_table(
        "Rolling bounces",
        ("run", "job", "status", "state", "progress", "since", "who", "why"),
        [
            (
                *(one["run_id"], one["job"], one["status"], one["state"], one["progress"]),
                *(at(one["since_ms"]), one["who"], one["why"]),
            )
            for one in shown
        ],
        spare=("why", "who", "since", "job"),
    )
    if run:
        _print_rows(list(rows.values()))


def _run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, Any]:
    from samza_dagster.orchestration import tags
    from samza_dagster.orchestration.operations import runs

    record = instance.get_run_record_by_id(run.run_id)
    fresh = record.dagster_run if record is not None else run
    since = record.create_timestamp if record is not None else None
    return {
        "run_id": run.run_id,
        "root_run_id": runs.root_of(fresh),
        "job": fresh.tags.get(tags.JOB, ""),
        "status": fresh.status.value.lower(),
        "state": fresh.tags.get(runs.BOUNCE, ""),
        "progress": fresh.tags.get(runs.PROGRESS, ""),
        "since_ms": _ms(since),
        "who": fresh.tags.get(tags.WHO, ""),
        "why": fresh.tags.get(tags.WHY, ""),
        "ticket": fresh.tags.get(tags.TICKET, ""),
    }


def _ms(when: datetime | None) -> int | None:
    if when is None:
        return None
    known = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return round(known.timestamp() * 1000)


def _plain(row: Progress) -> dict[str, Any]:
    return {**vars(row), "status": _outcome(row)}


def _outcome(row: Progress) -> str:
    """Events are of those that are back, failed or stuck: of the others none tells more."""
    from samza_dagster.orchestration.operations.schedule import UnitStatus

    return _NOT_YET if row.status is UnitStatus.WAITING else row.status.value


def _print_rows(rows: list[Progress]) -> None:
    print_table(
        "Containers",
        ("processor", "outcome", "host", "asked", "down s", "s until back", "back at", "why"),
        [
            (
                *(r.processor, _outcome(r), r.now_on or r.host, at(r.asked_ms)),
                *(r.down_s, r.seconds, at(r.back_ms), r.why),
            )
            for r in rows
        ],
        spare=("asked", "why", "back at"),
    )
