"""`samza-dagster verify`: is the job's audit history whole, and were its rules kept."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.client import audit_history
from samza_dagster.client.audit_history import AuditHistory, exported
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.placement import verification
from samza_dagster.placement.verification import Head, Verdict

if TYPE_CHECKING:
    from samza_dagster.placement.certificates import AuditRecord

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@click.command()
@click.option(
    "--from-file",
    type=click.File("r", encoding="utf-8"),
    help="Check an exported history instead, without a cluster; - is stdin.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the history to this file, a JSON object a line.",
)
@click.option(
    "--head",
    metavar="NUMBER:DIGEST",
    help="The head that an earlier check printed: its record must still be there, unchanged.",
)
@json_option
@target_options
@click.pass_context
def verify(
    ctx: click.Context,
    target: Target,
    from_file: TextIO | None,
    export: Path | None,
    head: str | None,
    as_json: bool,
) -> None:
    """Check every start and end of a container that the coordinator recorded.

    It checks that the chain of records is whole and unchanged, and that epochs grow. Every start must
    name how the incarnation before it lost its tasks (dead, fenced, lease), as recorded. No processor
    may ever have two owners, and no host two containers of a group. It reports the first
    violation and exits 1. It exits 4 when the records break no rule but the coordinator's state, which
    names the last record, can't be read. Samza's own Application Master records nothing; the command says so.

    \b
    Examples:
      samza-dagster verify
      samza-dagster verify --config job.properties --export history.jsonl
      samza-dagster verify --from-file history.jsonl --json
    """
    kept = _parsed_head(head)
    history = _history(target, from_file)
    theirs = None if from_file is not None else _deployment_of_an_am(target)
    if export is not None:
        _export(history, export)
    with busy(f"Checking {len(history.records)} records …"):
        verdict = verification.verify(
            history.records, history.head, kept=kept, since_ms=history.since_ms
        )
    if as_json:
        print_json(_document(verdict, history))
    else:
        _show(verdict, history)
    if theirs is not None:
        notice(
            f"Notice: Samza's own Application Master coordinates the job (deployment {theirs}). It "
            "keeps no such history: what it does isn't checked here, but by the sensor `invariants`."
        )
    if history.unread is not None:
        notice(
            f"Warning: the coordinator's state can't be read: {history.unread}. Whether records "
            "are missing at the end isn't checked."
        )
    unknown = Unreachable.exit_code if history.unread is not None else 0
    ctx.exit(unknown if verdict.ok else 1)


def _history(target: Target, from_file: TextIO | None) -> AuditHistory:
    if from_file is None:
        with busy("Reading the history …"):
            return audit_history.read_history(target.connection())
    try:
        return audit_history.history_of_lines(from_file, from_file.name)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"read {from_file.name}", seen="bytes that are no UTF-8", fix="a file of --export"
        ) from error


def _deployment_of_an_am(target: Target) -> str | None:
    """The deployment that Samza's own Application Master runs; None: none, or it isn't known."""
    try:
        with target.client() as client:
            view = client.view()
    except (InvalidInput, Unreachable):  # no stream yet: nothing was ever deployed
        return None
    return None if view.capabilities.tells_what_runs else view.deployment_id


def _parsed_head(text: str | None) -> Head | None:
    if text is None:
        return None
    match = _HEAD.fullmatch(text)
    if match is None:
        raise InvalidInput(
            "--head", seen=repr(text), fix="NUMBER:DIGEST, as an earlier check printed it"
        )
    return Head(int(match[1]), match[2])


def _export(history: AuditHistory, path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(exported(history))
    except OSError as error:
        raise InvalidInput(
            f"write {path}", seen=str(error.strerror), fix="a file that can be written"
        ) from error
    notice(f"{len(history.records)} records are in {path}.")


def _document(verdict: Verdict, history: AuditHistory) -> dict[str, Any]:
    violation, head = verdict.violation, verdict.head
    return {
        "ok": verdict.ok,
        "records": verdict.records,
        "complete": verdict.complete,
        "first_number": verdict.first_number,
        "first_at_ms": history.records[0].at_ms if history.records else None,
        "last_at_ms": history.records[-1].at_ms if history.records else None,
        "head": str(head) if head else None,
        "state_head": str(history.head) if history.head else None,
        "kept_since_ms": history.since_ms,
        "unread": history.unread,
        "starts": dict(verdict.starts),
        "predecessors": dict(verdict.ways),
        "violation": asdict(violation) if violation else None,
    }


def _show(verdict: Verdict, history: AuditHistory) -> None:
    if verdict.head is None:
        _show_none(verdict, history)
        return
    first, last = history.records[0], history.records[-1]
    click.echo(
        f"{verdict.records} records, {first.number} to {last.number}, "
        f"{at(first.at_ms)} to {at(last.at_ms)}"
    )
    if not verdict.complete:
        notice(
            f"Notice: records before {first.number} aren't there ({_why_gone(first, history)}); "
            "what they would say isn't checked."
        )
    print_table("Starts", ("processor", "starts"), list(verdict.starts.items()))
    print_table("How what they replaced had ended", ("way", "starts"), list(verdict.ways.items()))
    click.echo(f"Head: {verdict.head}")
    violation = verdict.violation
    if violation is None:
        click.echo("No rule is broken.")
        return
    click.echo(
        f"Violation in record {violation.number} (place {violation.position} in the history), "
        f"rule {violation.rule.value}: {violation.seen}"
    )


def _show_none(verdict: Verdict, history: AuditHistory) -> None:
    named = history.head.number if history.head else 0
    violation = verdict.violation
    if violation is not None:
        click.echo(f"Violation, rule {violation.rule.value}: {violation.seen}")
    elif named:
        click.echo(f"No record is left: the state counts {named}, older than what the topic keeps.")
    else:
        click.echo("No record yet.")


def _why_gone(first: AuditRecord, history: AuditHistory) -> str:
    """Describe why a history begins later than with record 1."""
    if history.since_ms is None or first.previous_at_ms is None:
        return "how long their topic keeps them, or how old they were, isn't known"
    if first.previous_at_ms >= history.since_ms:
        return f"the topic keeps what was written since {at(history.since_ms)}"
    return f"they are from {at(first.previous_at_ms)} and before, dropped by age"
