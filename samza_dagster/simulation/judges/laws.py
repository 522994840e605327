"""All that holds of every step besides the invariants; what is dear is looked at now and then."""

from __future__ import annotations

from samza_dagster.placement.state import JobState
from samza_dagster.simulation.judges.arrivals import judge_arrivals, judge_same_without_index
from samza_dagster.simulation.judges.audit_trail import judge_tampering, judge_trail
from samza_dagster.simulation.judges.books import judge_books, judge_expected, judge_sums
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.durability import judge_copy, judge_records
from samza_dagster.simulation.judges.explaining import judge_explanations
from samza_dagster.simulation.judges.given_up import judge_given_up
from samza_dagster.simulation.judges.kept_down import judge_kept_down
from samza_dagster.simulation.judges.lacking import judge_lacking
from samza_dagster.simulation.judges.phrases import judge_words
from samza_dagster.simulation.judges.readiness import judge_ahead, judge_starting
from samza_dagster.simulation.judges.rungs import judge_places
from samza_dagster.simulation.judges.shape import judge_shape
from samza_dagster.simulation.judges.starts import judge_certificates
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.tally import judge_tallies
from samza_dagster.simulation.judges.timing import judge_take_over, judge_timing
from samza_dagster.simulation.judges.truth import Truth
from samza_dagster.simulation.judges.turns import judge_turns
from samza_dagster.simulation.judges.violation import (
    AUDIT_VERIFIES,
    EXPLAINS_ITSELF,
    RECORDS_RESTORE,
    WELL_FORMED,
)

EXPLAIN_EVERY = 6
AGAIN_EVERY = 23
RECORDS_AT = frozenset({45, 110, 300})
TAMPER_EVERY = 20
TRAIL_EVERY = 3
LACKING_EVERY = 7


def judge_step(chronicle: Chronicle, taken: Taken, truth: Truth) -> None:
    """One committed step; the chronicle knows its commands already."""
    chronicle.steps += 1
    quiet = not taken.commands and not taken.changed
    if quiet and taken.before.hosts is taken.after.hosts and not taken.restarted:
        judge_quiet_step(chronicle, taken)
        return
    judge_books(chronicle, taken)
    if taken.changed:
        chronicle.premises[WELL_FORMED] += 1
        judge_shape(taken)
    judge_tallies(chronicle, taken)
    judge_kept_down(chronicle, taken)
    judge_timing(chronicle, taken)
    judge_turns(chronicle, taken)
    judge_places(chronicle, taken)
    judge_given_up(taken)
    judge_ahead(taken)
    judge_words(chronicle, taken)
    judge_arrivals(chronicle, taken)
    judge_certificates(chronicle, taken)
    judge_starting(taken)
    if taken.restarted:
        judge_take_over(taken)
        chronicle.premises[RECORDS_RESTORE] += 1
    if chronicle.steps % AGAIN_EVERY == 0:
        judge_same_without_index(taken)
    if chronicle.steps % EXPLAIN_EVERY == 0:
        chronicle.premises[EXPLAINS_ITSELF] += 1
        judge_explanations(taken.after, chronicle.steps // EXPLAIN_EVERY)
    if chronicle.steps in RECORDS_AT and taken.after.next_request % 6 == 0:
        judge_records(taken.after, taken.after.next_request // 6)


def judge_quiet_step(chronicle: Chronicle, taken: Taken) -> None:
    """Nothing is said and nothing changed: that time went on, and what is due, is all there is."""
    judge_sums(taken)
    judge_expected(taken)
    judge_kept_down(chronicle, taken)
    judge_timing(chronicle, taken)
    judge_turns(chronicle, taken)
    judge_given_up(taken)
    judge_arrivals(chronicle, taken)


def judge_end(chronicle: Chronicle, state: JobState) -> None:
    """The whole history: its audit trail, whole and tampered with."""
    if chronicle.steps % TRAIL_EVERY == 0:
        chronicle.premises[AUDIT_VERIFIES] += 1
        judge_trail(chronicle.trail, state)
    judge_copy(state)
    if chronicle.steps % LACKING_EVERY == 0:
        judge_lacking()
    if chronicle.steps % TAMPER_EVERY == 0:
        judge_tampering(chronicle.trail[:24])


__all__ = ["Taken", "judge_end", "judge_step"]
