"""All that holds of every step besides the invariants; what is dear is looked at now and then."""

from __future__ import annotations

import json
from collections.abc import Sequence

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.certificates import AuditRecord, audit_from_json, audit_to_json
from samza_dagster.placement.state import JobState
from samza_dagster.placement.verification import Head, verify
from tests.simulation.judges.arrivals import judge_arrivals, judge_index
from tests.simulation.judges.balances import judge_expected, judge_journal, judge_sums
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.fallbacks import judge_places
from tests.simulation.judges.forms import judge_forms
from tests.simulation.judges.kept_down import judge_kept_down
from tests.simulation.judges.phrases import judge_words
from tests.simulation.judges.stalls import judge_stalls
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.tally import judge_tallies
from tests.simulation.judges.timing import judge_take_over, judge_timing
from tests.simulation.judges.turns import judge_turns
from tests.simulation.judges.violation import (
    AUDIT_VERIFIES,
    RECORDS_RESTORE,
    InvariantViolated,
)

AGAIN_EVERY = 23


def judge_step(chronicle: Chronicle, taken: Taken) -> None:
    """One committed step; the chronicle knows its commands already."""
    chronicle.steps += 1
    quiet = not taken.commands and not taken.changed
    if quiet and taken.before.hosts is taken.after.hosts and not taken.restarted:
        # Nothing is said and nothing changed: that time went on, and what is due, is all there is.
        judge_sums(taken)
        judge_expected(taken)
    else:
        judge_journal(chronicle, taken)
        judge_tallies(chronicle, taken)
        judge_places(chronicle, taken)
        judge_words(chronicle, taken)
        if taken.restarted:
            judge_take_over(taken)
            chronicle.premises[RECORDS_RESTORE] += 1
        if chronicle.steps % AGAIN_EVERY == 0:
            judge_index(taken)
    judge_stalls(chronicle, taken)
    judge_kept_down(chronicle, taken)
    judge_timing(chronicle, taken)
    judge_turns(chronicle, taken)
    judge_arrivals(chronicle, taken)
    judge_forms(chronicle, taken)


def judge_end(chronicle: Chronicle, state: JobState) -> None:
    """The whole history: its audit trail."""
    chronicle.premises[AUDIT_VERIFIES] += 1
    _judge_trail(chronicle.trail, state)


def _judge_trail(records: Sequence[AuditRecord], state: JobState) -> None:
    """The whole history verifies up to the state's own head, and so does what age has left."""
    read = [_read_back(record) for record in records]
    if read != list(records):
        raise InvariantViolated(AUDIT_VERIFIES, "a record isn't read as it was written")
    head = Head(state.certificates, state.certificate_hash, state.certificate_at_ms or None)
    for first in sorted({0, 1, len(read) // 3, len(read) // 2, len(read) - 1} - {len(read)}):
        verdict = verify(read[max(first, 0) :], head)
        if not verdict.ok:
            raise InvariantViolated(AUDIT_VERIFIES, f"a true history: {verdict.violation}")


def _read_back(record: AuditRecord) -> AuditRecord:
    text = json.dumps(audit_to_json(record))
    try:
        return audit_from_json(json.loads(text), f"record {record.number}")
    except MalformedRecord as error:
        raise InvariantViolated(AUDIT_VERIFIES, f"{text} is refused: {error}") from error
