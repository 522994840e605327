"""Going through all kill points of a scenario, one after the other on one job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import zip_longest

from tests.rig.crashing_points import FENCE
from tests.rig.kill_points import KilledJob, KillPoint, Scenario
from tests.share import WHOLE, Share

TRIES = 3
"""A point may be passed by: what reaches the coordinator first isn't always the same. From the
second try on it is found by what happens there; one of a fence always is."""
SPARES_POINTS = (
    KillPoint("after-mark", 1),
    KillPoint("before-commit", 1),
    KillPoint("after-commit", 1),
    KillPoint("after-effect", 1),
    KillPoint("after-effect", 2),
)
"""Where a spare that has taken over is killed, too: as it says again what was under way."""


def kill_at(
    killed: KilledJob,
    scenario: Scenario,
    point: KillPoint | None,
    *,
    by_what: bool = False,
    spares: KillPoint | None = None,
) -> bool:
    """Once with a kill at the point, or undisturbed; whether it was come to."""
    began = time.monotonic()
    where = f"{point}, then {spares}" if spares else str(point)
    by_what = by_what or (point is not None and point.what.startswith(FENCE))
    try:
        reached = killed.run(scenario, point, by_what=by_what, spares=spares)
    except AssertionError as error:
        raise AssertionError(f"{scenario.name}, killed at {where}: {error}") from error
    print(f"{scenario.name} {where}: {time.monotonic() - began:.1f} s", flush=True)
    return reached


def go_through(
    killed: KilledJob, scenario: Scenario, *, every: int = 1, first: int | None = None
) -> tuple[int, list[str]]:
    """A kill at each point, or at every so manieth from the `first` (0 is a scenario's first).

    How many, and those that were never come to.
    """
    points = killed.points_of(scenario)
    _counted(points)
    chosen = points[every // 2 if first is None else first :: every]
    return len(chosen), go_through_these(killed, scenario, chosen)


def go_through_these(
    killed: KilledJob, scenario: Scenario, chosen: Sequence[KillPoint]
) -> list[str]:
    """A kill at each of the points; those that were never come to."""
    return [
        str(point)
        for point in chosen
        if not any(kill_at(killed, scenario, point, by_what=n > 0) for n in range(TRIES))
    ]


def go_through_twice_killed(
    killed: KilledJob,
    scenario: Scenario,
    chosen: Sequence[KillPoint],
    spares: Sequence[KillPoint] = SPARES_POINTS,
) -> list[str]:
    """A kill at each of the points, and of the spare that takes over at one of its own, in turn.

    Those that were never come to: of the leader, and of spares.
    """
    left = [
        f"{point}, then {spare}"
        for number, point in enumerate(chosen)
        for spare in (spares[number % len(spares)],)
        if not any(
            kill_at(killed, scenario, point, by_what=n > 0, spares=spare) for n in range(TRIES)
        )
    ]
    died = killed.deaths_of_spares
    return left + [f"no spare at {at}" for at in spares if not any(map(at.is_met_by, died))]


def go_through_in_turn(
    killed: KilledJob, one: Scenario, other: Scenario, share: Share = WHOLE
) -> tuple[int, list[str]]:
    """The same of two scenarios each of which begins where the other ends; of each its share."""
    points = {scenario.name: killed.points_of(scenario) for scenario in (one, other)}
    _counted([*points[one.name], *points[other.name]])
    points = {name: share.part(all_of_them) for name, all_of_them in points.items()}
    number = sum(map(len, points.values()))
    for tried in range(TRIES):
        if not any(points.values()):
            break
        left: dict[str, list[KillPoint]] = {one.name: [], other.name: []}
        for pair in zip_longest(points[one.name], points[other.name]):
            for scenario, point in zip((one, other), pair, strict=True):
                reached = kill_at(killed, scenario, point, by_what=tried > 0)
                if not reached and point is not None:
                    left[scenario.name].append(point)
        points = left
    return number, [f"{name} {point}" for name in points for point in points[name]]


def _counted(points: Sequence[KillPoint]) -> None:
    kinds = {point.point for point in points}
    assert kinds >= {"before-commit", "after-commit", "after-effect", "before-acknowledgement"}
