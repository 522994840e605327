"""Snapshots one after the other: what an error ends, when the next one is taken, when the tables are tidied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.snapshots import FleetSnapshot
from samza_dagster.snapshots.fleet import TIDIED_EVERY_S, stream

pytestmark = pytest.mark.unit
AWAY = Unreachable("a snapshot", seen="no broker", fix="start it")
FULL = Unreachable("table violations", seen="no space left", fix="room there")


@dataclass
class World:
    """A clock, and what each snapshot is: the seconds it takes, or an error."""

    takes: list[float | Unreachable]
    now_s: float = 0.0
    slept: list[float] = field(default_factory=list[float])
    errors: list[Unreachable] = field(default_factory=list[Unreachable])
    tidied: list[float] = field(default_factory=list[float])
    is_full: bool = False

    def take(self) -> FleetSnapshot:
        one = self.takes.pop(0)
        if isinstance(one, Unreachable):
            raise one
        self.now_s += one
        return cast("FleetSnapshot", self)

    def tidy(self) -> None:
        self.tidied.append(self.now_s)
        if self.is_full:
            raise FULL

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def stream(self, every_s: float) -> Iterator[Any]:
        return stream(
            self.take,
            self.tidy,
            every_s,
            cast("Any", self.errors.append),
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
        )


def test_each_begins_so_long_after_the_one_before_or_at_once_after_a_slow_one() -> None:
    world = World([2.0, 40.0, 1.0])
    assert len(list(islice(world.stream(30), 3))) == 3
    assert world.slept == [28.0, 0.0]


def test_the_first_error_ends_it_and_later_ones_are_said() -> None:
    """A broker that is away comes back."""
    with pytest.raises(Unreachable):
        next(World([AWAY]).stream(30))
    world = World([1.0, AWAY, AWAY, 1.0])
    assert len(list(islice(world.stream(30), 2))) == 2
    assert world.errors == [AWAY, AWAY]
    assert world.slept == [29.0, 30.0, 30.0]


def test_the_tables_are_tidied_once_a_day() -> None:
    """After the first, since nobody knows when that was done last."""
    world = World([1.0] * 4)
    list(islice(world.stream(TIDIED_EVERY_S / 2), 4))
    assert world.tidied == [1.0, TIDIED_EVERY_S + 1]


def test_tidying_that_fails_is_said_and_ends_nothing() -> None:
    """Snapshots go on while the disk is full, and are taken again once there is room."""
    world = World([1.0, FULL, 1.0], is_full=True)
    assert len(list(islice(world.stream(30), 2))) == 2
    assert world.errors == [FULL, FULL]
