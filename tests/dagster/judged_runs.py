"""What the runs of the rows are sent for, each in a world of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from judged_run import JudgedRun

from samza_dagster.client.views import HostView
from tests.rig.bounce_world import BounceWorld
from tests.rig.stepped_job import SteppedJob

_NEW_STANDBY = {"processor": "0", "destination": "host-4", "steady_s": 0}
AS_BEFORE = {"0": "host-1", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}
MOVED = {"0": "host-4", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}


def _demo(*, coordinator: str = "samza_dagster", lags: Sequence[str] = ()) -> SteppedJob:
    world = SteppedJob.demo()
    world.coordinator = coordinator  # pyright: ignore[reportAttributeAccessIssue]
    world.lag_now = {standby: [3] for standby in lags}
    return world


def _behind_at_first() -> SteppedJob:
    """The new standby is behind when it is looked at first. Deadlines count from its start."""
    world = _demo(lags=("0-0", "0-1"))
    world.lags = [{"0-0": [3], "0-1": [50_000]}]
    world.now_ms = time.time_ns() // 1_000_000
    return world


def drained_world() -> SteppedJob:
    """host-1 has 0 (warm standby), 1 (a standby far behind), 2 (no store) and 3's standby."""
    at = {"0": "host-1", "0-0": "host-2", "1": "host-1", "1-0": "host-3", "2": "host-1"}
    lags = {"0": 0, "0-0": 5, "1": 0, "1-0": 90_000, "1-1": 9, "3": 0, "3-0": 0}
    return SteppedJob(
        hosts={
            f"host-{n}": HostView(f"host-{n}", "alive", free_memory_mb=900) for n in range(1, 7)
        },
        goes_on_after=1,
        at={**at, "3": "host-4", "3-0": "host-1"},
        container_memory_mb=300,
        lag_now={processor: [lag] for processor, lag in lags.items()},
    )


def _bounced_world() -> BounceWorld:
    """Restarts that take tenths of a second by the clock on the wall; a hold lasts."""
    return BounceWorld(
        reserve_ms=200, stop_ms=100, start_ms=200, process_ms=100, lag_ms=200, hold_ms=10**9
    )


MOVE = JudgedRun(
    job="move_container",
    config={"processor": "1", "destination": "host-1"},
    world=_demo,
    requests={"move": "hold"},
    starts={"1": 1},
    at={**AS_BEFORE, "1": "host-1"},
)
RESTART = JudgedRun(
    job="restart_container",
    config={"processor": "1"},
    world=_demo,
    requests={"move": "hold"},
    starts={"1": 1},
    at=AS_BEFORE,
)
RELOCATE = JudgedRun(
    job="relocate_standby",
    config={"processor": "0-0"},
    world=_demo,
    requests={"move": "hold"},
    starts={"0-0": 1},
    at={**AS_BEFORE, "0-0": "host-2"},
)
FAIL_OVER = JudgedRun(
    job="fail_over",
    config={"processor": "0"},
    world=_demo,
    requests={"move": "fail-over"},
    starts={"0-0": 1, "0": 1},
    at={"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"},
)
SWAP = JudgedRun(
    job="move_with_standby",
    config={"processor": "0"},
    world=_demo,
    requests={"move": "place"},
    starts={"0-0": 1, "0": 1},
    at={"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"},
)
SWAP_UNDER_SAMZA = JudgedRun(
    name="move_with_standby under Samza's AM",
    job="move_with_standby",
    config={"processor": "0"},
    world=lambda: _demo(coordinator="samza"),
    requests={"relocate_standby": "place", "move": "place"},
    starts={"0-0": 1, "0": 1},
    at={"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"},
)
VIA = JudgedRun(
    job="move_via_new_standby",
    config=_NEW_STANDBY,
    world=lambda: _demo(lags=("0-0", "0-1")),
    requests={"spin_up": "start-standby", "gives_place": "stop-standby", "move": "hold"},
    starts={"0-1": 1, "0": 1},
    at=MOVED,
)
VIA_KEPT = JudgedRun(
    name="move_via_new_standby, kept",
    job="move_via_new_standby",
    config={**_NEW_STANDBY, "keep_standby": True},
    world=lambda: _demo(lags=("0-0", "0-1")),
    requests={"spin_up": "start-standby", "relocate_standby": "place", "move": "hold"},
    starts={"0-1": 2, "0": 1},
    at={**MOVED, "0-1": "host-2"},
)
VIA_WAITING = replace(VIA, name="move_via_new_standby, waiting", world=_behind_at_first)
SPIN_UP = JudgedRun(
    job="spin_up_standby",
    config=_NEW_STANDBY,
    world=lambda: _demo(lags=("0-0", "0-1")),
    requests={"spin_up": "start-standby"},
    starts={"0-1": 1},
    at={**AS_BEFORE, "0-1": "host-4"},
)
BOUNCE = JudgedRun(
    job="rolling_bounce",
    planned_by="plan_bounce",
    config={"canaries": 0, "at_once": 2},
    world=_bounced_world,
    requests={f"bounce/{p}": "hold" for p in ("0-0", "1-0", "0", "1")},
    starts={"0-0": 1, "1-0": 1, "0": 1, "1": 1},
    at=AS_BEFORE,
)
_DRAIN = "drain_host/host-1"
DRAIN = JudgedRun(
    job="drain_host",
    config={"host": "host-1", "steady_s": 0, "at_once": 2},
    world=drained_world,
    requests={
        f"{_DRAIN}/3-0/move": "hold",
        f"{_DRAIN}/0/away": "hold",
        f"{_DRAIN}/0/move": "hold",
        f"{_DRAIN}/2/move": "hold",
        f"{_DRAIN}/1/spin_up": "start-standby",
        f"{_DRAIN}/1/gives_place": "stop-standby",
        f"{_DRAIN}/1/move": "hold",
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
