"""Who is killed in a run of which job, where, and who goes on with it."""

from __future__ import annotations

from dataclasses import dataclass

from judged_run import JudgedRun
from judged_runs import (
    BOUNCE,
    DRAIN,
    FAIL_OVER,
    MOVE,
    RELOCATE,
    RESTART,
    SPIN_UP,
    SWAP,
    SWAP_UNDER_SAMZA,
    VIA,
    VIA_KEPT,
    VIA_WAITING,
)
from served_placement import Point

WORKER, WEBSERVER, DAEMON, CODE = "worker", "webserver", "daemon", "code-server"


@dataclass(frozen=True)
class Row:
    """A judged run and the process that is killed when it has come to a point.

    `by_hand`: nobody retries it. It is re-executed from failure, and the coordinator has
    ended meanwhile what it was asked; what Dagster retries finds it as it stood. `whole`: all of
    its ops have ended, so that there is nothing for Dagster to retry: it is re-executed whole.
    """

    judged_run: JudgedRun
    who: str
    point: Point
    by_hand: bool = False
    whole: bool = False

    def __str__(self) -> str:
        """The test's name."""
        how = ", whole" if self.whole else ", by hand" if self.by_hand else ""
        return f"{self.judged_run}: {self.who} {self.point}{how}"

    @property
    def worker_dies(self) -> bool:
        """So that its run fails."""
        return self.who == WORKER

    @property
    def ends_as_another(self) -> bool:
        """Whether another run than the one that was launched brings it to its end."""
        return self.worker_dies

    @property
    def tags(self) -> dict[str, str]:
        """Of its launch. A bounce has retries by itself."""
        return {"dagster/max_retries": "1" if self.who == WORKER and not self.by_hand else "0"}


def _boundaries(judged_run: JudgedRun, *ops: str) -> list[Row]:
    """The worker killed after each op, retried by Dagster and re-executed by hand in turn."""
    return [
        Row(judged_run, WORKER, Point(f"after {op}"), by_hand=bool(n % 2))
        for n, op in enumerate(ops)
    ]


def _of_worker(
    judged_run: JudgedRun, what: str, *, heard: bool = False, by_hand: bool = False
) -> Row:
    return Row(judged_run, WORKER, Point(what, heard), by_hand)


WORKER_ROWS = (
    *_boundaries(MOVE, "plan_move_container", "reserve", "stop", "move"),
    *_boundaries(RESTART, "plan_restart_container", "reserve", "stop", "move"),
    *_boundaries(RELOCATE, "plan_relocate_standby", "reserve", "stop", "move"),
    *_boundaries(FAIL_OVER, "plan_fail_over", "move_standby_away", "reserve", "stop", "move"),
    _of_worker(FAIL_OVER, "fail_over 0", heard=True),
    *_boundaries(SWAP, "plan_move_with_standby", "move_standby_away", "reserve", "stop", "move"),
    *_boundaries(SWAP_UNDER_SAMZA, "move_standby_away", "reserve"),
    *_boundaries(
        VIA,
        "plan_move_via_new_standby",
        "spin_up",
        "wait_until_warm",
        "give_place",
        "reserve",
        "stop",
        "move",
        "verify_placement",
    ),
    _of_worker(VIA, "start_standby 0", heard=True),
    _of_worker(VIA, "stop_standby 0-1", heard=True, by_hand=True),
    *_boundaries(VIA_KEPT, "wait_until_warm", "give_place"),
    _of_worker(VIA_KEPT, "place 0-1", heard=True),
    *_boundaries(VIA_WAITING, "give_place"),
    *_boundaries(SPIN_UP, "plan_spin_up_standby", "spin_up"),
    _of_worker(SPIN_UP, "start_standby 0", heard=True, by_hand=True),
    *_boundaries(BOUNCE, "plan_bounce", "bounce"),
    _of_worker(BOUNCE, "reserve 1-0", heard=True),
    _of_worker(BOUNCE, "reserve 0", by_hand=True),
    _of_worker(BOUNCE, "commit 0", heard=True),
    *_boundaries(DRAIN, "plan_drain_host"),
    _of_worker(DRAIN, "reserve 0", by_hand=True),
    _of_worker(DRAIN, "start_standby 1", heard=True),
    _of_worker(DRAIN, "stop_standby 1-1", by_hand=True),
    _of_worker(DRAIN, "reserve 1"),
    _of_worker(DRAIN, "processing 1", by_hand=True),
)
_ALL_DONE = (
    (MOVE, "verify_placement"),
    (RESTART, "verify_placement"),
    (RELOCATE, "verify_placement"),
    (FAIL_OVER, "verify_placement"),
    (SWAP, "verify_placement"),
    (SPIN_UP, "wait_until_warm"),
    (VIA, "standbys_after"),
    (BOUNCE, "summarize_bounce"),
    (DRAIN, "drain"),
)
_HELD = (
    (MOVE, Point("after reserve")),
    (FAIL_OVER, Point("after move_standby_away")),
    (SWAP, Point("after move_standby_away")),
    (VIA, Point("after wait_until_warm")),
    (VIA_WAITING, Point("after spin_up")),
    (BOUNCE, Point("reserve 0")),
    (DRAIN, Point("reserve 0")),
)
ROWS = (
    *(Row(judged_run, who, point) for who in (DAEMON, CODE) for judged_run, point in _HELD),
    Row(MOVE, WEBSERVER, Point("after reserve")),
    Row(VIA_WAITING, WEBSERVER, Point("after spin_up")),
    Row(BOUNCE, WEBSERVER, Point("reserve 0")),
    Row(DRAIN, WEBSERVER, Point("reserve 0")),
    *WORKER_ROWS,
    *(
        Row(judged_run, WORKER, Point(f"after {last}"), by_hand=True, whole=True)
        for judged_run, last in _ALL_DONE
    ),
)
