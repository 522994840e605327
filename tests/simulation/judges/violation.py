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

NOT_KEPT_DOWN = "not-kept-down"
RIGHT_PLACE = "right-place"
RECORDS_RESTORE = "records-restore"
AUDIT_VERIFIES = "audit-verifies"

JUDGES = (*INVARIANTS, NOT_KEPT_DOWN, RIGHT_PLACE, RECORDS_RESTORE, AUDIT_VERIFIES)
"""The invariants, and what else a job promises of every history."""


class InvariantViolated(Exception):
    """`invariant` doesn't hold any more; `what` says what was seen, for a person."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what

    def __reduce__(self) -> tuple[type[InvariantViolated], tuple[str, str]]:
        return type(self), (self.invariant, self.what)
