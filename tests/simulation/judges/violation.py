"""What a judge raises: a rule of the job that some step, or the world, has broken."""

from __future__ import annotations

SAME_HOST = "same-host"
STANDBY_DEAD_FIRST = "standby-dead-first"
ONE_OWNER = "one-owner"
RESERVE_BEFORE_STOP = "reserve-before-stop"
FAILURE_LEAVES_RUNNING = "failure-leaves-running"
ONE_ACTION = "one-action"
ACTED_ONCE = "acted-once"
OTHER_DEPLOYMENT = "other-deployment"
RECOVERY_EQUIVALENT = "recovery-equivalent"
NOTHING_FORGOTTEN = "nothing-forgotten"

INVARIANTS = (
    SAME_HOST,
    STANDBY_DEAD_FIRST,
    ONE_OWNER,
    RESERVE_BEFORE_STOP,
    FAILURE_LEAVES_RUNNING,
    ONE_ACTION,
    ACTED_ONCE,
    OTHER_DEPLOYMENT,
    RECOVERY_EQUIVALENT,
    NOTHING_FORGOTTEN,
)
"""Every invariant by its name, in the order in which the docs number them."""

JOURNAL_BALANCES = "journal-balances"
TALLIES = "tallies"
ON_TIME = "on-time"
NOT_KEPT_DOWN = "not-kept-down"
FAIR_TURNS = "fair-turns"
RIGHT_PLACE = "right-place"
TRUE_WORDS = "true-words"
RECORDS_RESTORE = "records-restore"
AUDIT_VERIFIES = "audit-verifies"

LAWS = (
    JOURNAL_BALANCES,
    TALLIES,
    ON_TIME,
    NOT_KEPT_DOWN,
    FAIR_TURNS,
    RIGHT_PLACE,
    TRUE_WORDS,
    RECORDS_RESTORE,
    AUDIT_VERIFIES,
)
"""What holds of every step besides: that it says what it does, in time, and counts right."""

JUDGES = INVARIANTS + LAWS


class InvariantViolated(Exception):
    """`invariant` doesn't hold any more; `what` says what was seen, for a person."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what

    def __reduce__(self) -> tuple[type[InvariantViolated], tuple[str, str]]:
        return type(self), (self.invariant, self.what)
