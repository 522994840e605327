"""`auto_failover` under every mishap of its ticks: no run twice, no limit forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lookout import ListEvents, Lookout, tick

from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.watch.cursor import HOUR_MS
from samza_dagster.orchestration.watch.reported import acknowledgement
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.dagster
HOSTS = [f"host-{n}" for n in range(4)]
MISHAPS = (
    "none",
    "twice",
    "cursor not kept",
    "killed before its runs",
    "no cursor",
    "killed before",
)


@dataclass
class Story:
    """A world, the sensor's cursor and events, and the runs that Dagster launched for it."""

    settings: AutoFailover
    world: Lookout = field(default_factory=Lookout)
    events: ListEvents = field(default_factory=ListEvents)
    cursor: str | None = None
    runs: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Run key → processor, and when."""
    acknowledged_ms: dict[str, int] = field(default_factory=dict)

    def tick(self, mishap: str = "none") -> None:
        world = self.world
        if mishap == "no cursor":
            self.cursor = None
        if mishap == "killed before":
            return
        for _ in range(2 if mishap == "twice" else 1):
            ticked = tick(world.client(), self.events, self.settings, self.cursor, world.now_ms)
            assert len(ticked.cursor) < 100_000
            self.events.kept += ticked.reported  # Dagster stores events, then cursor and runs
            if mishap == "killed before its runs":
                return
            for run in ticked.runs:
                self._launch(run)
        if mishap != "cursor not kept":
            self.cursor = ticked.cursor

    def _launch(self, run: dg.RunRequest) -> None:
        """As Dagster does, one run a key; and what must hold in the world at that moment."""
        assert run.run_key is not None
        if run.run_key in self.runs:
            return
        world = self.world
        processor = run.run_config["ops"]["plan_fail_over"]["config"]["processor"]
        group = group_of(processor)
        assert world.host_states[world.at[processor]] == "alive", "the coordinator knows"
        assert group not in world.busy, "the coordinator is at it"
        lately = [at for _, at in self.runs.values() if world.now_ms - at < HOUR_MS]
        assert len(lately) < self.settings.cap_per_hour
        for other, at in self.runs.values():
            if group_of(other) == group:
                assert self.acknowledged_ms.get(group, 0) >= at, "blocked"
        self.runs[run.run_key] = processor, world.now_ms

    def go(self, what: str, where: int) -> None:
        world, host = self.world, HOSTS[where]
        if what == "sick":
            world.words[host] = 20_000
        elif what == "well":
            world.words[host] = 100
        elif what == "lost":
            world.host_states[host] = "lost"
        elif what == "back":
            world.host_states[host] = "alive"
        elif what == "busy":
            world.busy[str(where)] = f"coordinator's own {where}"
        elif what == "idle":
            world.busy.clear()
        elif what == "succeeds":
            world.start(str(where), HOSTS[(where + 2) % 4])
        elif what == "acknowledged":
            clock_ms = world.now_ms + (-1, 1, -1, 0)[where] * 3_600_000
            self.events.kept.append(
                acknowledgement("demo/1", str(where), at_ms=clock_ms, who="me", why="looked")
            )
            self.acknowledged_ms[str(where)] = world.now_ms
        elif what == "leader gone":
            world.now_ms += 200_000


THINGS = (
    *("sick", "sick", "sick", "well", "lost", "back", "busy", "idle"),
    *("succeeds", "acknowledged", "acknowledged", "leader gone"),
)
STEP = st.tuples(
    st.sampled_from(THINGS),
    st.integers(0, 3),
    st.lists(
        st.tuples(st.sampled_from(MISHAPS), st.sampled_from((5, 5, 6, 30, 1_300))), max_size=5
    ),
)


@pytest.mark.longdagster
@settings(max_examples=250)
@given(
    steps=st.lists(STEP, min_size=1, max_size=14),
    cap=st.integers(0, 4),
)
def test_no_run_comes_twice_and_no_limit_is_forgotten(
    steps: list[tuple[str, int, list[tuple[str, int]]]], cap: int
) -> None:
    """Over worlds and mishaps: one run a failure, the block, the cap, one record of each."""
    story = Story(AutoFailover(mode="act", cap_per_hour=cap, mass_share=0.5))
    story.tick()
    for what, where, ticks in steps:
        story.go(what, where)
        for mishap, seconds in ticks:
            story.world.now_ms += seconds * 1000
            if what != "leader gone":
                story.world.alive()
            story.tick(mishap)
    said = told(story, "event")
    for uuid in story.runs:
        assert said.count(f"{uuid}/ask") == 1
    assert len(said) == len(set(said))


@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_frozen_agent_gives_one_run_and_one_record(mishap: str, at: int) -> None:
    """Whatever happens to the tick that asks, and to those before and after it."""
    story = Story(AutoFailover(mode="act"))
    story.world.words["host-0"] = 15_000
    for number in range(8):
        story.world.now_ms += 5_000
        story.world.alive()
        story.tick(mishap if number == at else "none")
    assert [processor for processor, _ in story.runs.values()] == ["0"]
    assert [v for v in told(story, "verdict") if v == "ask"] == ["ask"]


def told(story: Story, name: str) -> list[str]:
    return [str(e.metadata[name].value) for e in story.events.kept if name in e.metadata]


@pytest.mark.longdagster
@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("mishap", ["none", "twice", "cursor not kept", "killed before its runs"])
def test_a_trouble_that_was_over_and_comes_again_is_told_again(mishap: str, at: int) -> None:
    """Twice it begins and ends: two advices, two ends, whatever happens to one of the ticks."""
    story = Story(AutoFailover(mode="advise"))
    number = 0
    for silent_ms in (15_000, 100, 15_000, 100):
        story.world.words["host-0"] = silent_ms
        for _ in range(5):
            story.world.now_ms += 5_000
            story.world.alive()
            story.tick(mishap if number == at else "none")
            number += 1
        story.world.now_ms += 7 * 86_400_000
    assert told(story, "verdict") == ["advise"] * 2
    assert [e.tags["samza/event"] for e in story.events.kept] == [
        "auto-failover",
        "auto-failover-over",
    ] * 2
    assert len(set(told(story, "event"))) == 4


def test_each_silence_of_one_leader_is_told() -> None:
    """It fell silent, came back as it was, and fell silent again: its epoch is the same."""
    story = Story(AutoFailover(mode="act"))
    for silent in (True, False, True):
        for _ in range(40 if silent else 4):
            story.world.now_ms += 5_000
            if not silent:
                story.world.alive()
            story.tick()
    assert told(story, "verdict") == ["advise"] * 2


def test_what_is_held_back_again_is_told_again() -> None:
    """A block that nobody lifted holds the next failure too, and says so."""
    story = Story(AutoFailover(mode="act"))
    for silent_ms in (15_000, 100, 15_000, 100, 15_000):
        story.world.words["host-0"] = silent_ms
        for _ in range(3):
            story.world.now_ms += 5_000
            story.world.alive()
            story.tick()
    assert len(story.runs) == 1
    assert told(story, "verdict") == ["ask", "held", "held"]
    assert all(because.startswith("block: ") for because in told(story, "because")[2:])
