"""The newest readiness of a job's standbys, as it is published, and joined with lags of now. Pure.

The pace of each replica takes many reports to learn, and is read here in a tenth of a second. Its lag
is read anew. The standby that takes over is the one soonest ready by both. The record of a standby is
JSON with a version; its key is the standby's id, so that compaction keeps the newest of each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from samza_dagster.lag.forecasting import Forecast, Pace, forecast, last_of
from samza_dagster.lag.readiness import Judgement, StandbyStatus

GOOD_FOR_MS = 60_000
VERSION = 1
PACES_GOOD_FOR_MS = 900_000
"""Minutes for which a pace is used, by the job's newest report; no clock counts."""
LONGEST_GOOD_MS = 3_600_000
"""However long a record says that it is good for."""
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)

Part = tuple[str, str, int]
"""A replica's task, its store and the partition of its changelog."""


@dataclass(frozen=True, slots=True)
class Published:
    """The readiness of one standby as of the job's newest report then, `as_of_ms` by that record's time.

    `good_for_ms`: the rates of one that is older than that, by the job's newest report now, aren't used.
    """

    standby: str
    as_of_ms: int
    good_for_ms: int
    status: StandbyStatus
    why: str
    paces: Mapping[Part, Pace]


@dataclass(frozen=True, slots=True)
class NewestReadiness:
    """The usable part of a job's published readiness, by standby.

    `unused` says of each of the others why it isn't: too old, or unreadable.
    """

    standbys: Mapping[str, Published] = field(default_factory=dict[str, Published])
    unused: Mapping[str, str] = field(default_factory=dict[str, str])

    def apply_per_s(self, standby: str) -> float:
        """Offsets a second that the slowest of its replicas applies; 0 where that isn't known."""
        known = self.standbys.get(standby)
        if known is None:
            return 0.0
        return max(0.0, min((pace.apply_per_s for pace in known.paces.values()), default=0.0))

    def limit(self, standby: str, records: int, seconds: float) -> int:
        """How many records it may be behind: so many, or what it applies in so many seconds if that is more."""
        return max(records, int(seconds * self.apply_per_s(standby)))

    def takeover(self, standby: str, left: Mapping[Part, int | None]) -> Forecast | None:
        """Return how long a takeover would wait for the rest; None if unknown."""
        known = self.standbys.get(standby)
        paces: Mapping[Part, Pace] = {} if known is None else known.paces
        return last_of(
            None if behind is None else forecast(behind, paces.get(part), writes_go_on=False)
            for part, behind in left.items()
        )


def published(
    standby: str,
    judgement: Judgement,
    paces: Mapping[Part, Pace | None],
    as_of_ms: int,
    good_for_ms: int = PACES_GOOD_FOR_MS,
) -> tuple[bytes, bytes]:
    """Return key and value of a standby's record.

    A standby without any facts is published too: its record replaces the former one.
    """
    fields = {
        "version": VERSION,
        "as_of_ms": as_of_ms,
        "good_for_ms": good_for_ms,
        "status": judgement.status.value,
        "why": judgement.why,
        "parts": [
            {**dict(zip(("task", "store", "partition"), part, strict=True)), **asdict(pace)}
            for part, pace in paces.items()
            if pace is not None
        ],
    }
    return standby.encode(), json.dumps(fields, separators=(",", ":")).encode()


def newest_readiness(
    records: Iterable[tuple[bytes, bytes | None]], newest_report_ms: int
) -> NewestReadiness:
    """Return the usable part of these records, in which the last of a key counts.

    `newest_report_ms` is the time of the job's newest report now. It and `as_of_ms` are times of
    records of one topic: the reader's own clock is compared with neither.
    """
    standbys: dict[str, Published] = {}
    unused: dict[str, str] = {}
    for key, value in dict(records).items():
        if value is None:
            continue
        standby = key.decode(errors="replace")
        one = _read(standby, value)
        if one is None:
            unused[standby] = "its published readiness can't be read"
            continue
        age_ms = newest_report_ms - one.as_of_ms
        if age_ms <= one.good_for_ms:
            standbys[standby] = one
        else:
            unused[standby] = (
                f"its published readiness is {age_ms / 60_000:,.0f} min older than the newest report,"
                f" and good for {one.good_for_ms / 60_000:,.0f} min"
            )
    return NewestReadiness(standbys, unused)


def soonest_ready(
    newest: NewestReadiness, left: Mapping[str, Mapping[Part, int | None]], standbys: Sequence[str]
) -> list[str]:
    """The standbys, the one that a takeover would wait least for first; those of no forecast last, as given."""

    def waits(standby: str) -> float:
        found = newest.takeover(standby, left.get(standby, {}))
        if not left.get(standby) or found is None or found.ready_in_ms is None:
            return math.inf
        return found.ready_in_ms

    return sorted(standbys, key=waits)


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


def _read(standby: str, value: bytes) -> Published | None:
    """None of one that can't be read, or is of another version."""
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["version"] != VERSION:
            return None
        return Published(
            standby=standby,
            as_of_ms=int(fields["as_of_ms"]),
            good_for_ms=min(max(0, int(fields["good_for_ms"])), LONGEST_GOOD_MS),
            status=StandbyStatus(fields["status"]),
            why=str(fields["why"]),
            paces={
                (str(part["task"]), str(part["store"]), int(part["partition"])): _pace(part)
                for part in fields["parts"]
            },
        )
    except _UNREADABLE:
        return None


def _pace(part: Mapping[str, Any]) -> Pace:
    apply, write, noise, every_ms = (
        float(part[name]) for name in ("apply_per_s", "write_per_s", "noise_per_s", "every_ms")
    )
    pace = Pace(apply, write, noise, int(part["intervals"]), every_ms)
    if not all(map(math.isfinite, astuple(pace))) or pace.intervals < 1 or pace.every_ms <= 0:
        raise ValueError("pace")
    return pace
