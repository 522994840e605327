"""Findings as evaluations of asset checks: told when they change, found again after a lost cursor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

import dagster as dg

from samza_dagster.orchestration.checks.evaluations import newest_evaluation
from samza_dagster.orchestration.checks.findings import Board, Result, Told, is_due
from samza_dagster.orchestration.tables import table

SHOWN = 100


class CheckLog(Protocol):
    """What checks were last evaluated as; an asset is its key, parts joined by /."""

    def latest(self, asset: str, check: str) -> dg.AssetCheckEvaluation | None:
        """The newest evaluation."""
        ...


@dataclass(frozen=True)
class InstanceChecks:
    """`CheckLog` of a Dagster instance."""

    instance: dg.DagsterInstance

    def latest(self, asset: str, check: str) -> dg.AssetCheckEvaluation | None:
        """The newest evaluation."""
        key = dg.AssetCheckKey(dg.AssetKey(asset.split("/")), check)
        found = newest_evaluation(self.instance, key)
        return found[0] if found is not None else None


def seeded(board: Board | None, job: str, checks: Mapping[str, str], log: CheckLog) -> Board:
    """The board; a fresh one with what was told before. `checks`: check → its asset."""
    if board is not None:
        return board
    board = Board(job)
    for check, asset in checks.items():
        latest = log.latest(asset, check)
        told = None if latest is None else _told(latest, job)
        if told is not None:
            board = board.seeded(check, told[0], told[1])
    return board


def due(
    board: Board,
    results: tuple[Result, ...],
    checks: Mapping[str, str],
    log: CheckLog,
    now_ms: int,
    repeat_ms: int,
) -> tuple[Board, list[dg.AssetCheckEvaluation]]:
    """The evaluations to tell now, and the board that knows of them.

    What was told is what the log shows: a tick whose cursor was lost has told of it, and a look on
    demand may have told otherwise since. Of a check without a word about this job the board knows.
    """
    events: list[dg.AssetCheckEvaluation] = []
    for result in results:
        latest = log.latest(checks[result.check], result.check)
        known = None if latest is None else _told(latest, board.job)
        if known is not None:
            board = replace(board, told={**board.told, result.check: known[1]})
        if is_due(board, result, now_ms, repeat_ms):
            told = Told(result.fingerprint, now_ms)
            board = replace(board, told={**board.told, result.check: told})
            events.append(evaluation(result, checks[result.check], board.job, now_ms))
    return board, events


def evaluation(result: Result, asset: str, job: str, now_ms: int) -> dg.AssetCheckEvaluation:
    """What was seen and what to do, the worst first."""
    worst = sorted(result.failing, key=lambda s: (s.severity != "ERROR", s.since_ms, s.subject))
    error = any(s.severity == "ERROR" for s in worst)
    head = "; ".join(f"{s.subject}: {s.seen}" for s in worst[:3])
    more = len(worst) - 3 + result.left_out
    description = head + (f"; and {more} more" if more > 0 else "") if worst else "nothing found"
    description += "".join(f"; {note.seen}" for note in result.notes)
    if result.recovered:
        description += f"; over: {', '.join(result.recovered[:5])}"
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(asset.split("/")),
        check_name=result.check,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if error else dg.AssetCheckSeverity.WARN,
        description=description[:2_000],
        metadata={
            "job": job,
            "findings": len(worst) + result.left_out,
            "what_was_seen": table(
                [
                    {
                        "subject": s.subject,
                        "severity": s.severity,
                        "seen": s.seen,
                        "what_to_do": s.fix,
                        "seconds": (now_ms - s.since_ms) // 1000 if s.since_ms else None,
                    }
                    for s in (*worst[:SHOWN], *result.notes)
                ],
                ("subject", "severity", "seen", "what_to_do", "seconds"),
            ),
            "over": ", ".join(result.recovered[:SHOWN]) or "-",
            "fingerprint": result.fingerprint,
            "subjects": json.dumps([s.subject for s in worst]),
            "at_ms": now_ms,
        },
    )


def _told(event: dg.AssetCheckEvaluation, job: str) -> tuple[list[str], Told] | None:
    fields = event.metadata
    if "fingerprint" not in fields or fields["job"].value != job:
        return None
    subjects = cast("list[str]", json.loads(str(fields["subjects"].value)))
    at_ms = cast("int", fields["at_ms"].value)
    return subjects, Told(str(fields["fingerprint"].value), at_ms)
