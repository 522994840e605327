"""`samza-dagster gc`: removes placement messages that are no longer needed."""

from __future__ import annotations

import re

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, print_json, print_table
from samza_dagster.coordinator.clock import wall_clock_ms
from samza_dagster.coordinator.fencing import left_logins
from samza_dagster.errors import InvalidInput

_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|h|d)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
_SHOWN = 50


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `24h` or `7d` in seconds; raises `InvalidInput`."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput("--older-than", seen=repr(text), fix="a number and s, m, h or d: 24h")
    return float(match[1]) * _SECONDS[match[2] or ""]


@click.command()
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="AGE",
    help="Finished ones of at least this age: 90s, 15m, 24h, 7d.",
)
@click.option(
    "--logins",
    is_flag=True,
    help="Instead of messages: logins and rules of dead containers at the brokers.",
)
@click.option(
    "--unregistered-ended",
    is_flag=True,
    help="With --logins, of a standalone group: you know that no processor runs any more, or is frozen, "
    "that isn't registered.",
)
@click.option("--dry-run", is_flag=True, help="List them and remove nothing.")
@json_option
@target_options
def gc(
    target: Target,
    older_than: str,
    logins: bool,
    unregistered_ended: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove placement messages that are no longer needed, from both topics.

    Removes final answers that are old enough, with their requests, and every request of
    another deployment. Under Samza's AM it also removes records that stop it from serving: one
    that it can't read, a request for an unknown processor. It keeps every action in flight. Ages are by
    the clock of the coordinator that answers, up to its newest answer or sign of life. samza_dagster's own coordinator
    does the same by itself every hour; with Samza's AM, a schedule may.

    With --logins, what samza.dagster.fencing=broker has left at the brokers of a job that has
    other fencing now, or was ended: logins and rules of containers that were seen dead. Others
    are listed as kept. The login is the coordinator's (SAMZA_DAGSTER_CLIENT_CONFIG).
    A standalone processor removes its own when it ends, or starts again in its directory; those of one that
    never comes back are removed with --unregistered-ended.

    \b
    Examples:
      samza-dagster gc --dry-run
      samza-dagster gc --logins --dry-run --config job.properties
      samza-dagster gc --older-than 1h --json
    """
    if logins:
        _logins(target, unregistered_ended, dry_run=dry_run, as_json=as_json)
        return
    if unregistered_ended:
        raise InvalidInput("--unregistered-ended", seen="no --logins", fix="gc --logins as well")
    with target.client() as client:
        with busy("Reading both topics …"):
            found = client.unneeded(older_than_s=seconds(older_than))
        if not dry_run:
            with busy(f"Removing {len(found)} messages …"):
                client.remove(found)
    if as_json:
        print_json({"dry_run": dry_run, "removed": [removal.to_json() for removal in found]})
        return
    print_table(
        f"{len(found)} messages {'would be' if dry_run else 'were'} removed",
        ("request", "message", "topic", "at", "why"),
        [(r.uuid, r.kind, r.where.value, at(r.at_ms), r.why) for r in found[:_SHOWN]],
    )


def _logins(target: Target, has_unregistered_ended: bool, *, dry_run: bool, as_json: bool) -> None:
    connection = target.connection()
    with busy("Asking the brokers …"):
        found = left_logins.find(
            connection, wall_clock_ms(), has_unregistered_ended=has_unregistered_ended
        )
        if not dry_run:
            left_logins.remove(connection, found)
    dead = [login for login in found if login.dead]
    kept = [login for login in found if not login.dead]
    if as_json:
        removed = [login.to_json() for login in dead]
        print_json(
            {"dry_run": dry_run, "removed": removed, "kept": [login.to_json() for login in kept]}
        )
        return
    print_table(
        f"Logins and rules of {len(dead)} containers {'would be' if dry_run else 'were'} removed",
        ("container", "principal", ""),
        [(login.execution_id, login.principal, login.seen) for login in dead]
        + [(login.execution_id, login.principal, f"kept: {login.seen}") for login in kept],
    )
