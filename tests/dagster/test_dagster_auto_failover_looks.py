"""`auto_failover` looks again within its tick: from an event to its request in about 2 s."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from lookout import Lookout

from samza_dagster.orchestration.watch.failover_tick import Tick, watch
from samza_dagster.orchestration.watch.hysteresis import SAME_LOOK_MS
from samza_dagster.orchestration.watch.memory import Memory
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.stored import InstanceEvents, InstanceKeeper

pytestmark = pytest.mark.dagster

SETTINGS = AutoFailover.model_validate({"mode": "act"})


class Ticking:
    """Ticks in the world's own time; `look_s` is what a look takes."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.world = Lookout()
        self.world.alive()
        self.instance = instance
        self.settings = SETTINGS
        self.look_s = 0.05
        self.looks = 0
        self.looks_ms: list[int] = []
        self.pauses: list[float] = []
        self.happens_after_s = 1e9
        self.away_after_s = 1e9
        self.began_ms = self.world.now_ms

    def seconds(self) -> float:
        return (self.world.now_ms - self.began_ms) / 1000

    def pass_s(self, seconds: float) -> None:
        self.world.now_ms += round(seconds * 1000)
        self.world.alive()
        if self.seconds() >= self.happens_after_s:
            self.world.words["host-0"] = 15_000
        self.world.away = self.seconds() >= self.away_after_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.pass_s(seconds)

    def now(self) -> int:
        self.looks += 1
        self.pass_s(self.look_s)
        self.looks_ms.append(self.world.now_ms)
        return self.world.now_ms

    def tick(self, cursor: str | None = None) -> tuple[Tick, Memory]:
        events = InstanceEvents(self.instance)
        keeper = InstanceKeeper(self.instance)
        tick = Tick(self.world.client(), events, keeper, self.settings, self.now)
        return tick, watch(tick, cursor, clock=self.seconds, pause=self.pause)


class _Killed(BaseException):
    """The process is gone."""


def _die() -> None:
    raise _Killed


@pytest.fixture
def ticking() -> Iterator[Ticking]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ticking(instance)


def test_what_begins_within_a_tick_is_asked_for_in_that_tick(ticking: Ticking) -> None:
    """Within 2 s of the silence: one request, one run."""
    ticking.happens_after_s = 7.0
    tick, _ = ticking.tick()
    assert list(ticking.world.asked.values()) == [("fail-over", "0")]
    assert len(tick.runs) == 1
    assert ticking.seconds() - 7.0 <= 2.0


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("bad_looks", [1, 3])
def test_a_tick_that_is_killed_after_it_asked_is_adopted(
    ticking: Ticking, bad_looks: int, reset: bool
) -> None:
    """What it asked is found by what it had kept, and blocks its group; also of the first tick ever."""
    ticking.settings = SETTINGS.model_copy(update={"bad_looks": bad_looks})
    _, memory = ticking.tick()
    cursor = None if reset else memory.to_text()
    ticking.happens_after_s = ticking.seconds() + 7.0
    ticking.world.after_ask = _die
    with pytest.raises(_Killed):
        ticking.tick(cursor)
    ticking.world.after_ask = lambda: None
    (asked,) = ticking.world.asked
    ticking.world.fail_over_done(asked)
    ticking.world.words["host-0"] = 100
    ticking.happens_after_s = 1e9
    ticking.pass_s(5)
    tick, memory = ticking.tick(cursor)
    assert [run.run_key for run in tick.runs] == [asked]
    assert [acted.uuid for acted in memory.acted] == [asked]


def test_what_was_kept_ends_with_the_cursor_that_says_more(ticking: Ticking) -> None:
    """A cursor that is reset later doesn't bring back what a former tick suspected."""
    ticking.happens_after_s = 7.0
    _, memory = ticking.tick()
    keeper = InstanceKeeper(ticking.instance)
    assert keeper.kept(memory.job)
    ticking.pass_s(5)
    ticking.tick(memory.to_text())
    assert not keeper.kept(memory.job)


def test_nothing_is_kept_while_all_looks_well(ticking: Ticking) -> None:
    """Dagster's storage is written to before a look that may act, not at each."""
    _, memory = ticking.tick()
    assert not InstanceKeeper(ticking.instance).kept(memory.job)


def test_a_calm_tick_ends_in_time(ticking: Ticking) -> None:
    """Dagster gives up on a tick after 60 s."""
    tick, memory = ticking.tick()
    assert SETTINGS.look_for_s <= ticking.seconds() <= SETTINGS.look_for_s + 1
    assert (tick.reported, tick.runs, dict(memory.suspects)) == ([], [], {})


def test_at_most_a_fifth_of_the_time_is_spent_looking(ticking: Ticking) -> None:
    """Of a job that is large: the code server has more to do."""
    ticking.look_s = 1.5
    ticking.tick()
    assert min(ticking.pauses) >= 4 * 1.5
    assert ticking.looks <= 5


def test_once_something_looks_bad_looks_are_as_close_as_they_count(ticking: Ticking) -> None:
    """Two more looks confirm it: they are half a second apart, not as far as while all is well."""
    ticking.look_s = 0.3
    ticking.happens_after_s = 7.0
    ticking.tick()
    assert len(ticking.world.asked) == 1
    assert ticking.seconds() - 7.0 <= 0.3 + 1.5 + 2 * 0.5
    assert ticking.looks_ms[-1] - ticking.looks_ms[-2] >= SAME_LOOK_MS
    assert ticking.looks_ms[-2] - ticking.looks_ms[-3] >= SAME_LOOK_MS


def test_what_has_been_confirmed_is_looked_at_once_a_tick(ticking: Ticking) -> None:
    """Its good looks are seconds apart, so that a flicker doesn't end it."""
    ticking.happens_after_s = 1.0
    _, memory = ticking.tick()
    ticking.pass_s(5)
    _, memory = ticking.tick(memory.to_text())
    ticking.looks = 0
    ticking.pass_s(5)
    tick, _ = ticking.tick(memory.to_text())
    assert (ticking.looks, tick.reported, tick.runs) == (1, [], [])


def test_a_broker_that_leaves_in_mid_tick_costs_what_came_after(ticking: Ticking) -> None:
    """The cursor holds what was seen before; the next tick goes on."""
    ticking.happens_after_s = 4.0
    ticking.away_after_s = 4.7
    tick, memory = ticking.tick()
    assert (ticking.world.asked, tick.runs) == ({}, [])
    assert [suspect.confirmed for suspect in memory.suspects.values()] == [False]


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("look_s", "look_every_s", "look_for_s"),
    [(3.0, 0.6, 50), (12.0, 0.6, 18), (0.05, 60.0, 50), (9.0, 0.6, 50), (1.1, 0.6, 50)],
)
@pytest.mark.parametrize("bad", [False, True])
def test_no_tick_lasts_until_dagster_gives_up_on_it(
    ticking: Ticking, look_s: float, look_every_s: float, look_for_s: int, bad: bool
) -> None:
    """After 60 s its cursor would be lost, at each tick anew, with all that looks had counted."""
    updates = {"look_every_s": look_every_s, "look_for_s": look_for_s, "bad_looks": 100}
    ticking.settings = SETTINGS.model_copy(update=updates)
    ticking.look_s = look_s
    ticking.happens_after_s = 0.0 if bad else 1e9
    _, memory = ticking.tick()
    assert memory.looks == ticking.looks >= 1
    assert ticking.seconds() <= 56


def test_what_opening_the_client_took_is_part_of_the_tick(ticking: Ticking) -> None:
    """Dagster counts it too."""
    tick, _ = ticking.tick()
    before = ticking.seconds()
    watch(tick, None, clock=ticking.seconds, pause=ticking.pause, began=before - 17.5)
    assert ticking.seconds() - before <= 1.5
