"""The cost of starting each container on each host, and of the death of a host. Pure.

A container is back when the last of its store partitions is restored: they are restored at once, at
rates that were seen of containers which restored as many. Its active is dead meanwhile, so that
nothing more is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median, stdev

from samza_dagster.lag.forecasting import Forecast, Pace, forecast, last_of

LEAST_SEEN = 3


@dataclass(frozen=True, slots=True)
class StorePart:
    """A store partition of a container: where its changelog begins and ends.

    `warm` maps a host to the offset of the next record to apply there, where a copy of the store is
    known to be. None for both ends: they can't be read. `record_bytes` is the mean of a record, if it is known.
    """

    name: str
    beginning: int | None
    end: int | None
    warm: Mapping[str, int] = field(default_factory=dict[str, int])
    record_bytes: float | None = None

    def left(self, host: str) -> int | None:
        """Offsets to apply on a host; all that there are where no copy is."""
        if self.beginning is None or self.end is None:
            return None
        return max(0, self.end - max(self.beginning, self.warm.get(host, self.beginning)))


@dataclass(frozen=True, slots=True)
class Container:
    """An active container: where it runs, where its standbys do, and its stores' partitions."""

    processor_id: str
    host: str | None
    parts: tuple[StorePart, ...]
    standby_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Speeds:
    """Return the speeds in history: pace of restores and seconds of starts, by host, and of all hosts.

    A host without history counts like the others. None: there is no history at all.
    """

    pace: Pace | None
    start_s: float
    pace_on: Mapping[str, Pace] = field(default_factory=dict[str, Pace])
    start_s_on: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class RestoreForecast:
    """How long a container would be down if it were started on a host now.

    `is_warm`: there is a copy of each of its stores that have a changelog. `left` and `left_bytes`: offsets to
    apply, the sum, and their size; None, and `why`: it can't be known.
    """

    host: str
    is_warm: bool
    left: int | None
    left_bytes: int | None
    down: Forecast | None
    why: str = ""


def speeds(
    paces: Iterable[tuple[str, float]], starts: Iterable[tuple[str, float]], start_s: float
) -> Speeds:
    """Return medians of restores (host, offsets a second) and of starts (host, seconds).

    `start_s` holds while no start was seen. A host counts by itself once `LEAST_SEEN` of its own were.
    """
    restores, took = list(paces), list(starts)
    return Speeds(
        pace=_pace([rate for _, rate in restores]),
        start_s=median(seconds for _, seconds in took) if took else start_s,
        pace_on={h: one for h, mine in _by_host(restores).items() if (one := _pace(mine))},
        start_s_on={host: median(mine) for host, mine in _by_host(took).items()},
    )


def _by_host(seen: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for host, value in seen:
        found.setdefault(host, []).append(value)
    return {host: mine for host, mine in found.items() if len(mine) >= LEAST_SEEN}


def _pace(rates: Sequence[float]) -> Pace | None:
    """Return the pace of one interval of a minute: the next restore is another one, not their mean."""
    if not rates:
        return None
    spread = stdev(rates) if len(rates) > 1 else median(rates) / 2
    return Pace(median(rates), 0.0, spread, 1, 60_000.0)


def restore_forecast(container: Container, host: str, speeds: Speeds) -> RestoreForecast:
    """Forecast when an active container, started on this host, has its stores: warm here, cold there."""
    is_warm = all(host in part.warm for part in container.parts)
    lefts: list[int] = []
    size: int | None = 0
    for part in container.parts:
        left = part.left(host)
        if left is None:
            why = f"the changelog of {part.name} can't be read"
            return RestoreForecast(host, is_warm, None, None, None, why)
        lefts.append(left)
        each = part.record_bytes
        size = None if size is None or each is None else size + round(left * each)
    pace = speeds.pace_on.get(host, speeds.pace)
    start_ms = round(1000 * speeds.start_s_on.get(host, speeds.start_s))
    down = _down(tuple(lefts) or (0,), pace, start_ms)
    why = "" if down is not None else "no restore has been seen that tells how fast one is"
    return RestoreForecast(host, is_warm, sum(lefts), size, down, why)


@lru_cache(maxsize=1_000)
def _down(lefts: tuple[int, ...], pace: Pace | None, start_ms: int) -> Forecast | None:
    """The same on all hosts without a copy and without a pace of their own: most of a fleet."""
    return last_of(forecast(left, pace, writes_go_on=False, start_ms=start_ms) for left in lefts)


def after_a_loss(
    container: Container, forecasts: Iterable[RestoreForecast]
) -> tuple[bool, RestoreForecast | None]:
    """Return whether an active has a standby on another host, and where it would be back soonest if its own died.

    It comes back in the place of a standby, as our coordinator does it; where it has none, on the host where it
    would be back soonest. None: there is no other host among those of the forecasts.
    """
    elsewhere = [one for one in forecasts if one.host != container.host]
    standbys = [one for one in elsewhere if one.host in container.standby_hosts]
    return bool(standbys), min(standbys or elsewhere, key=_soonness, default=None)


def _soonness(row: RestoreForecast) -> tuple[bool, int, int, str]:
    ready = row.down.ready_in_ms if row.down is not None else None
    return ready is None, ready or 0, row.left or 0, row.host
