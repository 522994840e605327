"""Findings as evaluations of asset checks: told when they change, found again after a lost cursor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import dagster as dg

from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.watch.evaluations import newest_evaluation
from samza_dagster.orchestration.watch.findings import (
    CheckMemory,
    CheckResult,
    LastEvaluation,
    TrackedFinding,
    is_due,
)
from samza_dagster.orchestration.watch.reported import REPORTED_AT, time_ms

SHOWN = 100
_NOT_SEEN = "not seen yet since the sensor began anew"


def latest(instance: dg.DagsterInstance, asset: str, check: str) -> dg.AssetCheckEvaluation | None:
    """What a check was last evaluated as; an asset is its key, parts joined by /."""
    key = dg.AssetCheckKey(dg.AssetKey(asset.split("/")), check)
    found = newest_evaluation(instance, key)
    return found[0] if found is not None else None


def seeded(
    job: str,
    checks: Mapping[str, str],
    instance: dg.DagsterInstance,
    partition: str | None = None,
) -> CheckMemory:
    """A fresh memory with what was told before: that stands, until it is gone. `checks`: check → its asset."""
    standing: dict[str, Mapping[str, TrackedFinding]] = {}
    known: dict[str, LastEvaluation] = {}
    for check, asset in checks.items():
        evaluation_read = _last_evaluation(instance, asset, check, job, partition)
        if evaluation_read is not None:
            subjects, known[check] = evaluation_read
            standing[check] = {
                subject: TrackedFinding(
                    subject, _NOT_SEEN, "", "WARN", since_ms=0, bad=1, confirmed=True
                )
                for subject in subjects
            }
    return CheckMemory(job, checks=standing, evaluations=known)


def due(
    memory: CheckMemory,
    results: tuple[CheckResult, ...],
    checks: Mapping[str, str],
    instance: dg.DagsterInstance,
    now_ms: int,
    repeat_ms: int,
    partition: str | None = None,
) -> tuple[CheckMemory, list[dg.AssetCheckEvaluation]]:
    """The evaluations to tell now, and the memory that knows of them.

    What was told is what the instance shows: a tick whose cursor was lost has told of it, and a look on
    demand may have told otherwise since. Of a check without a word about this job the memory knows.
    The UI takes a check for not evaluated whose word is older than its asset's materialization: it is
    told again after each, but for those of several jobs, where it would be one for each of them.
    """
    events: list[dg.AssetCheckEvaluation] = []
    materialized_ms = {} if partition is not None else {
        asset: _materialized_ms(instance, asset) for asset in set(checks.values())
    }  # fmt: skip
    for result in results:
        known = _last_evaluation(
            instance, checks[result.check], result.check, memory.job, partition
        )
        if known is not None:
            memory = replace(memory, evaluations={**memory.evaluations, result.check: known[1]})
        last = memory.evaluations.get(result.check)
        is_older = last is not None and last.at_ms < materialized_ms.get(checks[result.check], 0)
        if is_older or is_due(memory, result, now_ms, repeat_ms):
            newest = LastEvaluation(result.fingerprint, now_ms)
            memory = replace(memory, evaluations={**memory.evaluations, result.check: newest})
            events.append(evaluation(result, checks[result.check], memory.job, now_ms))
    return memory, events


def evaluation(result: CheckResult, asset: str, job: str, now_ms: int) -> dg.AssetCheckEvaluation:
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
            REPORTED_AT: dg.MetadataValue.timestamp(now_ms / 1000),
        },
    )


def _materialized_ms(instance: dg.DagsterInstance, asset: str) -> int:
    event = instance.get_latest_materialization_event(dg.AssetKey(asset.split("/")))
    return 0 if event is None else round(event.timestamp * 1000)


def _last_evaluation(
    instance: dg.DagsterInstance, asset: str, check: str, job: str, partition: str | None
) -> tuple[list[str], LastEvaluation] | None:
    # Of several jobs a check's newest word is about any of them: each one's cursor knows its own.
    event = latest(instance, asset, check) if partition is None else None
    if event is None or "fingerprint" not in event.metadata:
        return None
    fields = event.metadata
    if fields["job"].value != job:
        return None
    subjects = cast("list[str]", json.loads(str(fields["subjects"].value)))
    at_ms = time_ms(fields, REPORTED_AT)
    return subjects, LastEvaluation(str(fields["fingerprint"].value), at_ms)
