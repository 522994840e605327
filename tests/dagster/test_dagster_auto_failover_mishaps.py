"""`auto_failover` under every mishap of its ticks: nothing is done twice, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lookout import DictKeeper, ListEvents, Lookout

from samza_dagster.model import StatusCode
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.watch.failover_tick import Tick, watch
from samza_dagster.orchestration.watch.policy import HOUR_MS
from samza_dagster.orchestration.watch.reported import acknowledgement
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.dagster
HOSTS = [f"host-{n}" for n in range(4)]
MISHAPS = (
    "none",
    "twice",
    "cursor not kept",
    "killed after it asked",
    "no cursor",
    "killed before",
)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Story:
    """A world, the sensor's cursor and events, and what was asked in it."""

    settings: AutoFailover
    world: Lookout = field(default_factory=Lookout)
    events: ListEvents = field(default_factory=ListEvents)
    keeper: DictKeeper = field(default_factory=DictKeeper)
    cursor: str | None = None
    runs: list[str] = field(default_factory=list)
    orphans: set[str] = field(default_factory=set)
    unsaid: set[str] = field(default_factory=set)
    acknowledged_ms: dict[str, int] = field(default_factory=dict)
    known_beat_ms: int = 0
    """The sign of life that the cursor knows."""
    heard_ms: int = 0
    """When the newest was first seen."""

    def tick(self, mishap: str = "none") -> None:
        world = self.world
        world.before_ask = self._judge
        known = set(world.asked)
        if mishap == "no cursor":
            self.cursor = None
            self.orphans |= self.unsaid
            self.unsaid = set()
        if mishap == "killed before":
            return
        if self.cursor is None or world.beat_ms != self.known_beat_ms:
            self.heard_ms = world.now_ms
        for _ in range(2 if mishap == "twice" else 1):
            client = world.client()
            tick = Tick(client, self.events, self.keeper, self.settings, lambda: world.now_ms)
            if mishap == "killed after it asked":
                world.after_ask = self._die
            try:
                memory = watch(
                    tick, self.cursor, clock=lambda: world.now_ms / 1000, pause=self._pause
                )
            except Killed:
                self.unsaid |= set(world.asked) - known
                return
            finally:
                world.after_ask = lambda: None
            self.events.kept += tick.reported
            for run in tick.runs:
                assert run.run_key is not None
                if run.run_key not in self.runs:  # as Dagster does
                    self.runs.append(run.run_key)
        self.unsaid -= set(self.runs)
        if mishap != "cursor not kept":
            text = memory.to_text()
            assert len(text) < 100_000
            self.cursor, self.known_beat_ms = text, world.beat_ms

    def _die(self) -> None:
        raise Killed

    def _pause(self, seconds: float) -> None:
        self.world.now_ms += round(seconds * 1000)

    def _judge(self, kind: str, processor: str) -> None:
        """Before each new request: what must hold in the world at that moment."""
        world, group = self.world, group_of(processor)
        assert world.host_states[world.at[processor]] == "alive", "the coordinator knows"
        assert group not in world.busy, "the coordinator is at it"
        # How old a sign of life was that was there already, only its own host's clock tells.
        silent_since_ms = max(world.beat_ms, self.heard_ms)
        assert world.now_ms - silent_since_ms < 120_000, "nobody reads"
        lately = [
            uuid
            for uuid, at in world.asked_at.items()
            if world.now_ms - at < HOUR_MS and uuid not in self.orphans
        ]
        assert len(lately) < self.settings.cap_per_hour
        acks = self.acknowledged_ms
        for uuid, (_, other) in world.asked.items():
            if group_of(other) == group and uuid not in self.orphans:
                assert acks.get(group, 0) >= world.asked_at[uuid], "blocked"

    def go(self, what: str, where: int) -> None:
        world, host = self.world, HOSTS[where]
        open_requests = [u for u in world.asked if not world.answers.get(u)]
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
        elif what == "succeeds" and open_requests:
            world.fail_over_done(open_requests[0])
        elif what == "fails" and open_requests:
            world.answer(open_requests[0], StatusCode.FAILED)
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
    *("succeeds", "succeeds", "fails", "acknowledged", "leader gone"),
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
    bad_looks=st.integers(1, 3),
    cap=st.integers(0, 4),
)
def test_nothing_is_done_twice_and_nothing_is_lost(
    steps: list[tuple[str, int, list[tuple[str, int]]]], bad_looks: int, cap: int
) -> None:
    """Over worlds and mishaps: one request a failure, the block, the cap, one run and one record of each."""
    patience = {"bad_looks": bad_looks, "good_looks": 2, "bad_within_s": 3_600}
    story = Story(
        AutoFailover(mode="act", look_for_s=2, cap_per_hour=cap, mass_share=0.5, **patience)
    )
    story.tick()
    for what, where, ticks in steps:
        story.go(what, where)
        for mishap, seconds in ticks:
            story.world.now_ms += seconds * 1000
            if what != "leader gone":
                story.world.alive()
            story.tick(mishap)
    for _ in range(3):
        story.world.now_ms += 5_000
        story.world.alive()
        story.tick()
    asked = set(story.world.asked) - story.orphans
    assert set(story.runs) >= asked
    assert len(story.runs) == len(set(story.runs))
    said = [
        str(event.metadata["event"].value)
        for event in story.events.kept
        if "event" in event.metadata
    ]
    for uuid in asked:
        assert said.count(f"{uuid}/ask") == 1
    assert len(said) == len(set(said))


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_frozen_agent_gives_one_request_one_run_one_record(mishap: str, at: int) -> None:
    """Whatever happens to the tick that asks, and to those after it."""
    story = Story(AutoFailover(mode="act", look_for_s=2))
    story.world.words["host-0"] = 15_000
    for number in range(8):
        story.world.now_ms += 5_000
        story.world.alive()
        story.tick(mishap if number == at else "none")
        if number == 4:
            for uuid in story.world.asked:
                story.world.fail_over_done(uuid)
    assert [kind for kind, _ in story.world.asked.values()] == ["fail-over"]
    assert story.runs == list(story.world.asked)
    verdicts = [
        str(e.metadata["verdict"].value) for e in story.events.kept if "verdict" in e.metadata
    ]
    assert [v for v in verdicts if v in ("ask", "adopt")] == (
        ["adopt"] if mishap == "killed after it asked" and at == 0 else ["ask"]
    )


def told(story: Story, name: str) -> list[str]:
    return [str(e.metadata[name].value) for e in story.events.kept if name in e.metadata]


@pytest.mark.longdagster
@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("mishap", ["none", "twice", "cursor not kept", "no cursor"])
def test_a_trouble_that_was_over_and_comes_again_is_told_again(mishap: str, at: int) -> None:
    """Twice it begins and ends: two advices, two ends, whatever happens to one of the ticks."""
    story = Story(AutoFailover(mode="advise", look_for_s=2))
    number = 0
    for silent_ms in (15_000, 100, 15_000, 100):
        story.world.words["host-0"] = silent_ms
        for _ in range(4):
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
    story = Story(AutoFailover(mode="act", look_for_s=2))
    for silent in (True, False, True):
        for _ in range(40 if silent else 3):
            story.world.now_ms += 5_000
            if not silent:
                story.world.alive()
            story.tick()
    assert told(story, "verdict") == ["advise"] * 2


def test_what_is_held_back_again_is_told_again() -> None:
    """A block that nobody lifted holds the next failure too, and says so."""
    story = Story(AutoFailover(mode="act", look_for_s=2))
    for silent_ms in (15_000, 100, 15_000, 100, 15_000):
        story.world.words["host-0"] = silent_ms
        for _ in range(3):
            story.world.now_ms += 5_000
            story.world.alive()
            story.tick()
        for uuid in story.world.asked:
            story.world.answer(uuid, StatusCode.FAILED)
    assert len(story.world.asked) == 1
    assert told(story, "verdict") == ["ask", "held", "held"]
    assert all(because.startswith("block: ") for because in told(story, "because")[1:])
