"""Which standby takes over: the one soonest ready by forecast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GOOD_FOR_MS = 60_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A standby that may take over, and the newest sample of its lag.

    `records` is what it has still to apply, `ready_in_ms` a forecast; None is unknown.
    `sampled_at_ms` is of the same clock as the `now_ms` that it is compared with;
    None means that there is no sample. It tells nothing once it is more than `good_for_ms` old: a
    standby whose restore died long ago may have been the best then.
    """

    processor_id: str
    records: int | None = None
    ready_in_ms: int | None = None
    sampled_at_ms: int | None = None
    good_for_ms: int = GOOD_FOR_MS


def soonest_ready(candidates: Iterable[Candidate], now_ms: int) -> list[Candidate]:
    """All candidates, the best first: by `ready_in_ms`, then `records`, then id.

    Unknown comes after known.
    """

    def rank(candidate: Candidate) -> tuple[bool, int, bool, int, str]:
        at = candidate.sampled_at_ms
        if at is None or abs(now_ms - at) > candidate.good_for_ms:
            return (True, 0, True, 0, candidate.processor_id)
        ready, records = candidate.ready_in_ms, candidate.records
        return (ready is None, ready or 0, records is None, records or 0, candidate.processor_id)

    return sorted(candidates, key=rank)
