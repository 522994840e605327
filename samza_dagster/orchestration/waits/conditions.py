"""What a run waits for, and whether it has come true. Pure: states and times in, verdicts out.

A replica is steady while its lag is known and small at every look; as a lag counts as
small from 0 up to the limit, one that stays small is also flat. So of all looks only the
time since when they were good has to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, cast

from samza_dagster.orchestration.views import ReplicaLag

STEADY_LAG = "steady-lag"
VERSION = 1
SEEN_IS_GOOD_FOR_MS = 600_000
NAMED = 3


@dataclass(frozen=True)
class Wait:
    """One wait of a chain of runs: for any of the standbys `who` to be steady.

    `limit` in records; `deadline_ms` since the epoch; `number` counts the waits of the
    chain from 1; `run` is the run that ended with it. `deadlines` has those of single
    standbys where they differ; `deadline_ms` is the first of them.
    """

    who: tuple[str, ...]
    limit: int
    steady_s: float
    deadline_ms: int
    number: int
    run: str
    what: str = STEADY_LAG
    deadlines: Mapping[str, int] = field(default_factory=dict[str, int])

    def to_text(self) -> str:
        """As a run tag holds it."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))


@dataclass(frozen=True)
class Met:
    """What a sensor saw before it continued a run: who was steady for how many ms, and when.

    None of them: the deadline was over, or `why` names what else happened.
    """

    steady_ms: Mapping[str, int]
    at_ms: int
    deadline_ms: int
    why: str
    deadlines: Mapping[str, int] = field(default_factory=dict[str, int])

    def deadline_of(self, replica: str) -> int | None:
        """Until when the wait was to last for this one; None when it wasn't waited for.

        A tag of an older release has one deadline for all.
        """
        return self.deadlines.get(replica) if self.deadlines else self.deadline_ms

    def was_steady(self, replica: str, now_ms: int) -> bool:
        """It was, and so lately that it counts."""
        return replica in self.steady_ms and now_ms - self.at_ms <= SEEN_IS_GOOD_FOR_MS

    def to_text(self) -> str:
        """As a run tag holds it."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))


@dataclass(frozen=True)
class Watched:
    """Since when (ms) each replica of a wait has been steady, as of the look at `at_ms`."""

    since_ms: Mapping[str, int]
    at_ms: int


def read_wait(text: str | None) -> Wait | None:
    """The wait in a run tag; None for none and for one that can't be read."""
    data = _read(text)
    try:
        if data is None or data["what"] != STEADY_LAG:
            return None
        return Wait(
            who=tuple(str(one) for one in data["who"]),
            limit=int(data["limit"]),
            steady_s=float(data["steady_s"]),
            deadline_ms=int(data["deadline_ms"]),
            number=int(data["number"]),
            run=str(data["run"]),
            deadlines=_deadlines(data),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def read_met(text: str | None) -> Met | None:
    """What the sensor saw, of a run tag; None for none and for one that can't be read."""
    data = _read(text)
    try:
        if data is None:
            return None
        steady = {str(k): int(v) for k, v in data["steady_ms"].items()}
        return Met(
            steady_ms=steady,
            at_ms=int(data["at_ms"]),
            deadline_ms=int(data["deadline_ms"]),
            why=str(data["why"]),
            deadlines=_deadlines(data),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def lags_by_processor(replicas: Iterable[ReplicaLag]) -> dict[str, int | None]:
    """The most that any store of each processor is behind; None when one of them isn't known."""
    found: dict[str, int | None] = {}
    for replica in replicas:
        pid, lag = replica.processor_id, replica.lag
        worst = found.get(pid, 0)
        found[pid] = None if lag is None or worst is None else max(worst, lag)
    return found


def reasons_unknown(replicas: Iterable[ReplicaLag]) -> dict[str, str]:
    """Why the lag of a processor isn't known, of those of which something can't be read."""
    return {one.processor_id: one.reason for one in replicas if one.lag is None and one.reason}


def look(
    wait: Wait,
    former: Watched | None,
    lags: Mapping[str, int | None],
    now_ms: int,
    gap_ms: int,
) -> Watched:
    """What is known after one more look; one that comes more than `gap_ms` late begins anew."""
    fresh = former is not None and 0 <= now_ms - former.at_ms <= gap_ms
    since: dict[str, int] = {}
    for one in wait.who:
        lag = lags.get(one)
        if lag is not None and lag <= wait.limit:
            since[one] = former.since_ms.get(one, now_ms) if fresh and former else now_ms
    return Watched(since, now_ms)


def met(
    wait: Wait, watched: Watched, processors: Iterable[str], wanted_now: str = ""
) -> Met | None:
    """Why the run is to be continued now; None while it is to wait on.

    A run is continued too when its deadline is over or a standby is gone: it then ends
    with the true reason. `wanted_now` is a reason from outside.
    """
    now_ms = watched.at_ms
    held = {one: now_ms - since for one, since in watched.since_ms.items()}
    steady = {one: ms for one, ms in held.items() if ms >= wait.steady_s * 1000}
    gone = sorted(set(wait.who) - set(processors))
    if steady:
        why = f"{_some_of(sorted(steady))} at most {wait.limit:,} records behind for {wait.steady_s:g} s"
    elif gone:
        why = f"{_some_of(gone)} isn't in the job any more"
    elif now_ms >= wait.deadline_ms:
        why = "the deadline is over"
    elif wanted_now:
        why = wanted_now
    else:
        return None
    return Met(steady, now_ms, wait.deadline_ms, why, wait.deadlines)


def behind(lag: int | None, reason: str = "") -> str:
    """How far a replica is behind, for a person; `reason`: why that isn't known."""
    if lag is not None:
        return f"{lag:,} records behind"
    return f"lag unknown ({reason})" if reason else "lag unknown"


def told(
    wait: Wait,
    watched: Watched,
    lags: Mapping[str, int | None],
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """One line on a wait, for a person."""
    parts: list[str] = []
    for one in wait.who:
        since = watched.since_ms.get(one)
        steady = "" if since is None else f", steady for {(watched.at_ms - since) / 1000:.0f} s"
        parts.append(f"{one} {behind(lags.get(one), reasons.get(one, ''))}{steady}")
    left = max(0, wait.deadline_ms - watched.at_ms) / 1000
    return (
        f"{'; '.join(parts)}; wanted ≤ {wait.limit:,} for {wait.steady_s:g} s within {left:.0f} s"
    )


def _some_of(names: Sequence[str]) -> str:
    """The first few: the text is part of a run tag."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _deadlines(data: Mapping[str, Any]) -> dict[str, int]:
    return {str(one): int(at_ms) for one, at_ms in data.get("deadlines", {}).items()}


def _read(text: str | None) -> dict[str, Any] | None:
    try:
        data: object = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    known = cast("dict[str, Any]", data)
    return known if known.get("version") == VERSION else None
