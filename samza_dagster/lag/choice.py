"""Which standby takes over: the one soonest ready by forecast."""

from __future__ import annotations

GOOD_FOR_MS = 60_000


def soonness(
    records: int | None, ready_in_ms: int | None, age_ms: int, good_for_ms: int = GOOD_FOR_MS
) -> tuple[bool, int, bool, int]:
    """Sorts standbys, the best first: by forecast, then by records still to apply.

    Unknown comes after known. A sample tells nothing once it is more than `good_for_ms` old, or
    that far ahead: a standby whose restore died long ago may have been the best then.
    """
    if abs(age_ms) > good_for_ms:
        records = ready_in_ms = None
    elif ready_in_ms is not None:
        return (False, ready_in_ms, records is None, records or 0)
    return (True, 0, records is None, records or 0)
