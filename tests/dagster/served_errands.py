"""What the runs of the rows are sent for, each in a world of its own, and the only right end of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fake_placement import SUCCEEDED, World
from served_placement import AnyWorld, PlacementServer

from samza_dagster.client.views import HostView
from samza_dagster.model.naming import group_of, is_standby
from samza_dagster.orchestration.requests import request_uuid
from tests.rig.bounce_world import BounceWorld, Restarted

WRITES = frozenset({"place", "reserve", "commit", "start_standby", "stop_standby"})
MOVED = {"0": "host-4", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}


@dataclass(frozen=True)
class Errand:
    """A job, what it is told, and what there is to see of it in the end.

    `requests` are step → kind; `starts` is how often each container was started, `at` where
    everybody is. `waits`: its run ends with a wait, and sensor `continuations` launches the next.
    """

    job: str
    config: Mapping[str, object]
    world: Callable[[], AnyWorld]
    requests: Mapping[str, str]
    starts: Mapping[str, int]
    at: Mapping[str, str]
    name: str = ""
    planned_by: str = ""
    waits: bool = False

    def __str__(self) -> str:
        """For a test's name."""
        return self.name or self.job

    @property
    def run_config(self) -> dict[str, Any]:
        """Of its launch."""
        return {"ops": {self.planned_by or f"plan_{self.job}": {"config": dict(self.config)}}}

    def is_done(self, world: AnyWorld) -> bool:
        """Whether everybody was started."""
        return _starts(world) == self.starts

    def judge(self, world: AnyWorld, root: str) -> None:
        """Each request asked once, by the id of its step; each container started once, where it belongs."""
        asked = {request_uuid(root, step, 0): kind for step, kind in self.requests.items()}
        assert set(world.requests) == set(asked)
        assert _starts(world) == self.starts
        assert world.at == self.at
        assert not world.released
        if isinstance(world, World):
            assert world.kinds == asked
            _judge_answers(world, root)
        else:
            _judge_bounce(world, root, at_once=int(str(self.config["at_once"])))


def _judge_answers(world: World, root: str) -> None:
    holds = [uuid for uuid, kind in world.kinds.items() if kind == "hold"]
    assert world.committed == {uuid: request_uuid(root, "commit", 0) for uuid in holds}
    assert {answers[-1].status_code for answers in world.answers.values()} == {SUCCEEDED}
    assert not world.cancelled
    for together in world.together:
        assert len({group_of(p) for p in together}) == len(together)


def _judge_bounce(world: BounceWorld, root: str, at_once: int) -> None:
    done = list(world.requests.values())
    asked = [r.processor for r in done]
    assert [is_standby(p) for p in asked] == sorted(map(is_standby, asked), reverse=True)
    for r in done:
        assert r.statuses[-1].status_code is SUCCEEDED
        assert r.committed_by == request_uuid(root, f"bounce-commit/{r.processor}", 0)
        beside = [other for other in done if _overlap(r, other)]
        assert not [o for o in beside if group_of(o.processor) == group_of(r.processor)]
        assert len(beside) < at_once


def _overlap(one: Restarted, other: Restarted) -> bool:
    if one is other:
        return False
    return one.asked_ms < _end_ms(other) and other.asked_ms < _end_ms(one)


def _end_ms(request: Restarted) -> int:
    return request.statuses[-1].timestamp


def _starts(world: AnyWorld) -> Mapping[str, int]:
    return world.starts if isinstance(world, World) else world.restarts()


def written(server: PlacementServer, row: str) -> Counter[str]:
    """What was written in a row's world, and how often: an id that comes twice counts twice."""
    return Counter(
        {
            what: times
            for (of, what), times in server.calls.items()
            if of == row and what.split()[0] in WRITES
        }
    )


def _demo(*, coordinator: str = "samza_dagster", lags: Sequence[str] = ()) -> World:
    world = World.demo()
    world.coordinator = coordinator  # pyright: ignore[reportAttributeAccessIssue]
    world.lag_now = {standby: [3] for standby in lags}
    return world


def _behind_at_first() -> World:
    """The new standby is behind when it is looked at first. Deadlines count from its start."""
    world = _demo(lags=("0-0", "0-1"))
    world.lags = [{"0-0": [3], "0-1": [50_000]}]
    world.now_ms = time.time_ns() // 1_000_000
    return world


def drained_world() -> World:
    """host-1 has 0 (warm standby), 1 (a standby far behind), 2 (no store) and 3's standby."""
    at = {"0": "host-1", "0-0": "host-2", "1": "host-1", "1-0": "host-3", "2": "host-1"}
    lags = {"0": 0, "0-0": 5, "1": 0, "1-0": 90_000, "1-1": 9, "3": 0, "3-0": 0}
    return World(
        hosts={
            f"host-{n}": HostView(f"host-{n}", "alive", free_memory_mb=900) for n in range(1, 7)
        },
        at={**at, "3": "host-4", "3-0": "host-1"},
        container_memory_mb=300,
        lag_now={processor: [lag] for processor, lag in lags.items()},
    )


def _bounced_world() -> BounceWorld:
    """Restarts that take tenths of a second by the clock on the wall; a hold lasts."""
    return BounceWorld(
        reserve_ms=200, stop_ms=100, start_ms=200, process_ms=100, lag_ms=200, hold_ms=10**9
    )


MOVE = Errand(
    job="move_container",
    config={"processor": "1", "destination": "host-1"},
    world=_demo,
    requests={"move": "hold"},
    starts={"1": 1},
    at={"0": "host-1", "0-0": "host-3", "1": "host-1", "1-0": "host-4"},
)
SWAP = Errand(
    job="move_with_standby",
    config={"processor": "0"},
    world=_demo,
    requests={"move": "place"},
    starts={"0-0": 1, "0": 1},
    at={"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"},
)
SWAP_UNDER_SAMZA = Errand(
    name="move_with_standby under Samza's AM",
    job="move_with_standby",
    config={"processor": "0"},
    world=lambda: _demo(coordinator="samza"),
    requests={"relocate_standby": "place", "move": "place"},
    starts={"0-0": 1, "0": 1},
    at={"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"},
)
_VIA = {"processor": "0", "destination": "host-4", "steady_s": 0}
VIA = Errand(
    job="move_via_new_standby",
    config=_VIA,
    world=lambda: _demo(lags=("0-0", "0-1")),
    requests={"spin_up": "start-standby", "gives_place": "stop-standby", "move": "hold"},
    starts={"0-1": 1, "0": 1},
    at=MOVED,
)
VIA_KEPT = Errand(
    name="move_via_new_standby, kept",
    job="move_via_new_standby",
    config={**_VIA, "keep_standby": True},
    world=lambda: _demo(lags=("0-0", "0-1")),
    requests={"spin_up": "start-standby", "relocate_standby": "place", "move": "hold"},
    starts={"0-1": 2, "0": 1},
    at={**MOVED, "0-1": "host-2"},
)
VIA_WAITING = replace(
    VIA, name="move_via_new_standby, continued", world=_behind_at_first, waits=True
)
BOUNCE = Errand(
    job="rolling_bounce",
    planned_by="plan_bounce",
    config={"canaries": 0, "at_once": 2},
    world=_bounced_world,
    requests={f"bounce/{p}": "hold" for p in ("0-0", "1-0", "0", "1")},
    starts={"0-0": 1, "1-0": 1, "0": 1, "1": 1},
    at={"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"},
)
_DRAIN = "drain_host/host-1"
DRAIN = Errand(
    job="drain_host",
    config={"host": "host-1", "steady_s": 0, "at_once": 2},
    world=drained_world,
    requests={
        f"{_DRAIN}/3-0/move": "place",
        f"{_DRAIN}/0/away": "place",
        f"{_DRAIN}/0/move": "place",
        f"{_DRAIN}/2/move": "place",
        f"{_DRAIN}/1/spin_up": "start-standby",
        f"{_DRAIN}/1/gives_place": "stop-standby",
        f"{_DRAIN}/1/move": "place",
    },
    starts={"3-0": 1, "0-0": 1, "0": 1, "2": 1, "1-1": 1, "1": 1},
    at={
        "0": "host-2",
        "0-0": "host-3",
        "1": "host-2",
        "1-0": "host-3",
        "2": "host-4",
        "3": "host-4",
        "3-0": "host-5",
    },
)
