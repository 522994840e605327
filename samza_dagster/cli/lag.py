"""`samza-dagster lag`: how far each replica is behind its changelog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, print_json, print_table
from samza_dagster.errors import ActionFailed, Unreachable

if TYPE_CHECKING:
    from samza_dagster.client import ReplicaLag


@click.command()
@json_option
@target_options
def lag(target: Target, as_json: bool) -> None:
    """Show the lag of every replica of every store partition, in records.

    A standby's lag is as of its last report; column `since` has the records written to its
    changelog after that. They count as lag once the report is older than three of the job's intervals.

    Column `known by`: `metrics` is a standby's own report. `running` is an active that has
    reported work since it started, so it has all that it wrote. `checkpoint` is the last commit of
    an active that isn't known to run. `none`: nothing was reported, also while an active restores.

    Exits 1 when a store's changelog doesn't exist, has no partition for a task, or was deleted and made
    anew, so that it ends before what was applied. Exits 4 when some lag isn't known because something
    can't be read, such as a partition without a leader. Those rows say so; the others aren't affected.

    \b
    Examples:
      samza-dagster lag
      samza-dagster lag --json | jq '.replicas[] | select(.lag > 1000)'
      samza-dagster lag --json | jq '.replicas[] | select(.reason != null)'
    """
    with target.client() as client, busy("Reading offsets and metrics …"):
        replicas = client.lag()
    if as_json:
        print_json({"replicas": [replica.to_json() for replica in replicas]})
    else:
        _print(replicas)
    if any(r.is_changelog_lost for r in replicas):
        raise click.exceptions.Exit(ActionFailed.exit_code)
    if any(r.lag is None and r.reason for r in replicas):
        raise click.exceptions.Exit(Unreachable.exit_code)


def _print(replicas: Sequence[ReplicaLag]) -> None:
    print_table(
        "Lag in records",
        (
            "processor",
            "task",
            "store",
            "partition",
            "host",
            "end",
            "applied",
            "lag",
            "since",
            "known by",
            "seen at",
            *(("reason",) if any(r.reason for r in replicas) else ()),
        ),
        [
            (
                r.processor_id,
                r.task_name,
                r.store,
                r.partition,
                r.host,
                r.end_offset,
                r.applied_offset,
                r.lag,
                r.written_since,
                r.basis,
                at(r.observed_at_ms),
                *((r.reason or "",) if any(each.reason for each in replicas) else ()),
            )
            for r in replicas
        ],
        spare=("seen at", "applied", "end", "partition", "store"),
    )
