"""`auto_failover` where many troubles stand: each further one is seen, told and acted on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from lookout import DictKeeper, ListEvents, Lookout

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.watch.failover_tick import Tick, quiet
from samza_dagster.orchestration.watch.memory import Memory
from samza_dagster.orchestration.watch.settings import AutoFailover, Mode
from tests.rig.pace import PACE

pytestmark = pytest.mark.dagster
STUCK = (50_000, 7)
MODES = {"shadow": "shadow", "advise": "advise", "act": "ask"}
MOST_S, MOST_CURSOR = 2.0, 150_000


class Watch:
    """A world and the sensor's ticks, one look each, 5 s apart; an active is stuck after a minute."""

    def __init__(self, world: Lookout, mode: Mode, cap: int = 1_000, mass: float = 1.0) -> None:
        self.settings = AutoFailover(
            mode=mode, stuck_s=60, standby_down_s=30, cap_per_hour=cap, mass_share=mass
        )
        self.world = world
        self.events, self.keeper = ListEvents(), DictKeeper()
        self.cursor: str | None = None
        self.memory = Memory("demo/1")
        self.slowest_s = 0.0

    def tick(self, times: int = 1) -> None:
        world = self.world
        for _ in range(times):
            world.now_ms += 5_000
            world.alive()
            client = world.client()
            tick = Tick(client, self.events, self.keeper, self.settings, lambda: world.now_ms)
            began = time.process_time()
            self.memory = tick.run(self.cursor)
            self.cursor = self.memory.to_text()
            self.slowest_s = max(self.slowest_s, time.process_time() - began)
            self.events.kept += tick.reported

    def told(self, processor: str) -> list[str]:
        return [
            str(event.metadata["verdict"].value)
            for event in self.events.kept
            if "verdict" in event.metadata and event.metadata["processor"].value == processor
        ]

    def most_often(self) -> int:
        """How often the same was told, at most."""
        events = Counter(str(e.metadata["event"].value) for e in self.events.kept)
        return max(events.values())


def flapping(world: Lookout, many: int) -> None:
    world.flapping |= {f"{n}-0" for n in range(20, 20 + many)}


def stuck(world: Lookout, many: int) -> None:
    world.backlog |= {str(n): STUCK for n in range(20, 20 + many)}


def alone(world: Lookout, many: int) -> None:
    """Stuck, and no standby could take their places."""
    stuck(world, many)
    world.states |= {f"{n}-0": "waiting" for n in range(20, 20 + many)}


def down(world: Lookout, many: int) -> None:
    world.states |= {f"{n}-0": "waiting" for n in range(20, 20 + many)}


def large(actives: int = 170) -> Lookout:
    return Lookout(actives=actives, host_count=actives)


LONG = pytest.mark.longdagster


@pytest.mark.parametrize("many", [25, pytest.param(100, marks=LONG), pytest.param(140, marks=LONG)])
@pytest.mark.parametrize(
    "trouble",
    [flapping, stuck, pytest.param(alone, marks=LONG), pytest.param(down, marks=LONG)],
)
@pytest.mark.parametrize("mode", list(MODES))
def test_a_new_trouble_is_told_however_many_stand(
    mode: Mode, trouble: Callable[[Lookout, int], None], many: int
) -> None:
    """An active that is stuck, within three looks and the two in which it is told; each of them once."""
    watch = Watch(large(30 + many), mode)
    trouble(watch.world, many)
    watch.tick(40)
    watch.world.backlog["0"] = STUCK
    watch.tick(14)
    assert watch.told("0") == []
    watch.tick(4)
    assert watch.told("0") == [MODES[mode]]
    assert [uuid for uuid, (_, p) in watch.world.asked.items() if p == "0"] == (
        [] if mode != "act" else list(watch.world.asked)[-1:]
    )
    for number in range(20, 20 + many):
        assert watch.told(str(number)) or watch.told(f"{number}-0"), number
    assert watch.most_often() == 1
    assert len(watch.memory.to_text()) < MOST_CURSOR


def test_a_host_that_falls_sick_is_told_however_many_troubles_stand() -> None:
    """What concerns many containers comes first."""
    watch = Watch(large(), "act")
    stuck(watch.world, 140)
    watch.tick(40)
    watch.world.words["host-5"] = 20_000
    watch.tick(4)
    assert watch.told("5") == ["ask"]


def test_what_is_refused_again_and_again_keeps_nothing_from_being_asked() -> None:
    """25 requests that the client refuses, with three allowed within the hour."""
    watch = Watch(large(60), "act", cap=3)
    stuck(watch.world, 25)
    client_refuses = {str(n) for n in range(20, 45)}

    def refuse(_: str, processor: str) -> None:
        if processor in client_refuses:
            raise InvalidInput(f"fail over {processor}", seen="a rule", fix="wait")

    watch.world.before_ask = refuse
    watch.tick(40)
    watch.world.backlog["0"] = STUCK
    watch.tick(18)
    assert watch.told("0") == ["ask"]
    assert [processor for _, processor in watch.world.asked.values()] == ["0"]


@LONG
def test_the_end_of_each_of_many_troubles_is_told_once() -> None:
    """Also of those that there is no room to follow at every look."""
    watch = Watch(large(), "advise")
    flapping(watch.world, 140)
    watch.tick(40)
    watch.world.flapping.clear()
    watch.tick(30)
    ends = [e for e in watch.events.kept if e.tags["samza/event"] == "auto-failover-over"]
    assert len({e.metadata["subject"].value for e in ends}) == 140
    assert watch.most_often() == 1
    assert watch.memory.suspects == {}


@LONG
@pytest.mark.parametrize("mode", ["advise", "act"])
def test_a_job_all_of_which_is_bad_is_told_within_bounds_and_the_rest_is_counted(
    mode: Mode,
) -> None:
    """1,000 containers: no tick of 2 s, a small cursor, nothing told twice, and how much is left out."""
    watch = Watch(large(500), mode, cap=3)
    watch.world.backlog = {str(n): STUCK for n in range(500)}
    watch.world.flapping = {f"{n}-0" for n in range(500)}
    watch.tick(100)
    assert watch.most_often() == 1
    assert watch.slowest_s < MOST_S * PACE
    assert len(watch.memory.to_text()) < MOST_CURSOR
    assert watch.memory.left_out >= 900
    assert f"{watch.memory.left_out} more" in quiet(watch.memory)
    told = len(watch.events.kept)
    watch.tick(30)
    assert len(watch.events.kept) - told < 10


@LONG
def test_hosts_all_of_which_are_sick_are_each_told_and_the_rest_is_counted() -> None:
    """50 of them with 5 actives each are more than are judged at a look."""
    watch = Watch(Lookout(actives=500, host_count=100), "advise")
    watch.world.words |= {f"host-{n}": 20_000 for n in range(50)}
    watch.tick(40)
    hosts = {str(e.metadata["subject"].value) for e in watch.events.kept}
    assert hosts == {f"host-{n}" for n in range(50)}
    assert watch.most_often() == 1
    assert watch.memory.left_out == 250 - len(watch.events.kept) > 0
    assert watch.slowest_s < MOST_S * PACE
