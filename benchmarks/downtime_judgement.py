"""What the downtimes of `benchmarks.failover` prove: summaries, slopes, bounds, and a file to go on from.

Pure, but for the file.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import LinearRegression, linear_regression, median
from typing import Any, NamedTuple

from benchmarks import results_file
from benchmarks.response_latency import percentile

PLANNED_P50_MS, PLANNED_P95_MS, CRASH_MORE_MS = 4_000, 6_000, 1_000
BOUNDED = {
    "planned move": 0,
    "failover": CRASH_MORE_MS,
    "host lost": CRASH_MORE_MS,
}
"""Those onto a standby, and how much more than a planned move each may take, ms."""
COLD, HOST_LOST = "cold host", "host lost"
KINDS = (HOST_LOST, "planned move", "failover", "same host", COLD)
"""In the order of a turn."""
LOST_EVERY = 4
"""A host is lost in the first of so many turns: it takes as long as its silence is suffered."""
SLOWEST = 0.95
"""Part of the asked rate that the inputs of each move must have had."""
NEGLIGIBLE = 0.1
"""Part of the cold host's slope that counts as none."""


class Move(NamedTuple):
    """One: its downtime, and the inputs' rate meanwhile in the partition that had the fewest, 1/s."""

    downtime_ms: int
    rate: float


Results = dict[float, dict[str, list[Move]]]
"""By MB of state and kind."""


def turns(kinds: Mapping[str, Sequence[Move]]) -> int:
    """Whole turns; those that aren't in each turn don't count."""
    return min(len(kinds.get(kind, ())) for kind in KINDS if kind != HOST_LOST)


def summary(values: Sequence[int]) -> dict[str, float]:
    """n, p50, p95, max in ms."""
    return {
        "n": len(values),
        "p50_ms": median(values),
        "p95_ms": percentile([float(v) for v in values], 0.95),
        "max_ms": max(values),
    }


def slope(points: Sequence[tuple[float, int]], seed: int = 1) -> dict[str, float]:
    """ms of downtime a MB of state, and the middle 95 % of 2,000 resamplings."""

    def fitted(some: Sequence[tuple[float, int]]) -> LinearRegression:
        return linear_regression([x for x, _ in some], [y for _, y in some])

    lots = random.Random(seed)
    again: list[float] = []
    while len(again) < 2_000:
        drawn = lots.choices(points, k=len(points))
        if len({x for x, _ in drawn}) > 1:
            again.append(fitted(drawn).slope)
    again.sort()
    return {"ms_per_mb": fitted(points).slope, "from": again[50], "to": again[-51]}


def slopes(results: Results) -> dict[str, dict[str, float]]:
    """Of each kind that was measured at more than one size."""
    points: dict[str, list[tuple[float, int]]] = {}
    for size, kinds in results.items():
        for kind, moves in kinds.items():
            points.setdefault(kind, []).extend((size, move.downtime_ms) for move in moves)
    return {
        kind: slope(some) for kind, some in sorted(points.items()) if len({x for x, _ in some}) > 1
    }


def figures(results: Results) -> dict[str, Any]:
    """Everything measured, each kind's summary, and its slope where there is more than one size."""
    return {
        "by_state_mb": {
            f"{size:g}": {
                kind: {
                    **summary([move.downtime_ms for move in moves]),
                    "slowest_rate": min(move.rate for move in moves),
                    "all_ms": [move.downtime_ms for move in moves],
                    "all_rates": [round(move.rate, 1) for move in moves],
                }
                for kind, moves in kinds.items()
            }
            for size, kinds in results.items()
            if kinds
        },
        "slopes": slopes(results),
    }


def what_is_wrong(results: Results, *, moves: int, rate: float) -> list[str]:
    """Every reason for which the requirement isn't shown to hold; empty when it is.

    Whole: `moves` of each kind at each size, of lost hosts one in `LOST_EVERY`. The bounds
    at every size. The inputs' rate. Where more than one size is asked for, downtime onto the
    standby is flat as the state grows: the slope's interval lies below the cold host's, and
    it includes 0 (or less) or ends at what is negligible against that one. Where the cold
    host's doesn't grow there is nothing to be flat against.
    """
    return [
        *_not_whole(results, moves),
        *_beyond_bounds(results),
        *_too_slow(results, rate),
        *(_not_flat(slopes(results)) if len(results) > 1 else []),
    ]


def _not_whole(results: Results, moves: int) -> list[str]:
    found: list[str] = []
    for size, kinds in results.items():
        for kind in KINDS:
            wanted = math.ceil(moves / LOST_EVERY) if kind == HOST_LOST else moves
            if (had := len(kinds.get(kind, ()))) < wanted:
                found.append(f"{size:g} MB, {kind}: {had} of {wanted}")
    return found


def _beyond_bounds(results: Results) -> list[str]:
    found: list[str] = []
    for size, kinds in results.items():
        for kind, more in BOUNDED.items():
            if not kinds.get(kind):
                continue
            row = summary([move.downtime_ms for move in kinds[kind]])
            for name, bound in (
                ("p50_ms", PLANNED_P50_MS + more),
                ("p95_ms", PLANNED_P95_MS + more),
            ):
                if row[name] > bound:
                    found.append(f"{size:g} MB, {kind}: {name} {row[name]:.0f} above {bound}")
    return found


def _too_slow(results: Results, rate: float) -> list[str]:
    found: list[str] = []
    for size, kinds in results.items():
        for kind, moves in kinds.items():
            slowest = min((move.rate for move in moves), default=rate)
            if slowest < SLOWEST * rate:
                found.append(f"{size:g} MB, {kind}: inputs at {slowest:.0f}/s, not {rate:.0f}/s")
    return found


def _not_flat(found_slopes: Mapping[str, Mapping[str, float]]) -> list[str]:
    cold = found_slopes.get(COLD)
    if cold is None:
        return ["no slope: nothing was moved at two sizes"]
    if cold["from"] <= 0:
        return [f"{COLD}: its slope may be 0 ({_told(cold)}), so another's tells nothing"]
    found: list[str] = []
    for kind in BOUNDED:
        row = found_slopes.get(kind)
        if row is None:
            found.append(f"{kind}: no slope")
        elif row["from"] > 0 and row["to"] > NEGLIGIBLE * cold["ms_per_mb"]:
            found.append(f"{kind}: grows with the state, {_told(row)}; {COLD} {_told(cold)}")
        elif row["to"] >= cold["from"]:
            found.append(f"{kind}: too uncertain, {_told(row)}; {COLD} {_told(cold)}")
    return found


def _told(row: Mapping[str, float]) -> str:
    return f"{row['ms_per_mb']:+.1f} ms a MB, {row['from']:+.1f} to {row['to']:+.1f}"


# What goes on from an earlier run


class Kept(NamedTuple):
    """What a run has so far: all moves, the commits that they were measured at, and each failure."""

    results: Results
    commits: list[str]
    failed: list[str]


def resumed(path: Path | None, setting: Mapping[str, Any]) -> Kept:
    """What an earlier run of the same setting left in `path`; what failed then has failed.

    Raises `SystemExit` that names what differs: runs of other code, or of another machine,
    aren't of one distribution.
    """
    results: Results = {size: {} for size in setting["state_mb"]}
    if path is None or not path.exists():
        return Kept(results, [], [])
    kept: dict[str, Any] = json.loads(path.read_text())
    had: dict[str, Any] = kept.get("setting") or {}
    if had != setting:
        differ = sorted(k for k in {*had, *setting} if had.get(k) != setting.get(k))
        told = "; ".join(f"{k} {had.get(k)}, now {setting.get(k)}" for k in differ)
        raise SystemExit(f"--json {path} was measured with {told}: name another file")
    for size, kinds in kept["by_state_mb"].items():
        results[float(size)] = {
            kind: [Move(*each) for each in zip(row["all_ms"], row["all_rates"], strict=True)]
            for kind, row in kinds.items()
        }
    return Kept(results, list(kept["commits"]), list(kept["failed"]))


def keep(path: Path, setting: Mapping[str, Any], kept: Kept) -> None:
    """Writes all of it."""
    told = {"setting": setting, "commits": kept.commits, "failed": kept.failed}
    results_file.keep(json.dumps({**told, **figures(kept.results)}, indent=1), path)
