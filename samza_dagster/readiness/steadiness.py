"""Whether a standby keeps up: its lag is small and flat, and has been for long enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LagAt:
    """A replica's lag at a time; `records` None: it wasn't known then."""

    at_ms: int
    records: int | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What counts as steady.

    Small: at most `small_records` behind. Flat: over the time looked at no more than
    `flat_records` between the least and the most. Long enough: for `long_enough_ms`,
    with no two samples further apart than `gap_ms`.
    """

    small_records: int = 1_000
    flat_records: int = 1_000
    long_enough_ms: int = 30_000
    gap_ms: int = 15_000


@dataclass(frozen=True, slots=True)
class Steadiness:
    """`steady_for_ms` is how long small and flat have held; `why_not` is for a person."""

    steady: bool
    steady_for_ms: int
    why_not: str = ""


def steadiness(samples: Sequence[LagAt], now_ms: int, bounds: Bounds = Bounds()) -> Steadiness:
    """Judges samples in order of time, back from the newest as far as all bounds hold."""
    if not samples:
        return Steadiness(False, 0, "no sample")
    silent = now_ms - samples[-1].at_ms
    if silent > bounds.gap_ms:
        return Steadiness(False, 0, f"no sample for {silent} ms, at most {bounds.gap_ms} allowed")
    why = "no earlier sample"
    least = most = None
    since = next_ms = samples[-1].at_ms
    for sample in reversed(samples):
        if sample.records is None:
            why = f"the lag was unknown at {sample.at_ms}"
        elif sample.records > bounds.small_records:
            why = f"{sample.records} records behind at {sample.at_ms}, small is {bounds.small_records}"
        elif next_ms - sample.at_ms > bounds.gap_ms:
            why = f"no sample for {next_ms - sample.at_ms} ms before {next_ms}"
        else:
            low = sample.records if least is None else min(least, sample.records)
            high = sample.records if most is None else max(most, sample.records)
            if high - low <= bounds.flat_records:
                least, most = low, high
                since = next_ms = sample.at_ms
                continue
            why = (
                f"from {low} to {high} records since {sample.at_ms}, flat is {bounds.flat_records}"
            )
        break
    if least is None:
        return Steadiness(False, 0, why)
    held = samples[-1].at_ms - since
    if held >= bounds.long_enough_ms:
        return Steadiness(True, held)
    return Steadiness(False, held, f"for {held} ms of {bounds.long_enough_ms}: {why}")
