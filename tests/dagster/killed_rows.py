"""Who is killed in a run of which job, where, and who goes on with it."""

from __future__ import annotations

from dataclasses import dataclass

from served_errands import (
    BOUNCE,
    DRAIN,
    MOVE,
    SWAP,
    SWAP_UNDER_SAMZA,
    VIA,
    VIA_KEPT,
    VIA_WAITING,
    Errand,
)
from served_placement import Point

from samza_dagster.orchestration.instance import Storage

WORKER, WEBSERVER, DAEMON, CODE = "worker", "webserver", "daemon", "code-server"
BOTH = f"{CODE} and {WORKER}"
"""As when their machine restarts."""


@dataclass(frozen=True)
class Row:
    """A run of an errand and the process that is killed when it has come to a point.

    `by_hand`: nobody retries it. It is re-executed from failure, and the coordinator has
    ended meanwhile what it was asked; what Dagster retries finds it as it stood. `whole`: all of
    its ops have ended, so that there is nothing for Dagster to retry: it is re-executed whole.
    """

    errand: Errand
    who: str
    point: Point
    by_hand: bool = False
    whole: bool = False

    def __str__(self) -> str:
        """The test's name."""
        how = ", whole" if self.whole else ", by hand" if self.by_hand else ""
        return f"{self.errand}: {self.who} {self.point}{how}"

    @property
    def worker_dies(self) -> bool:
        """So that its run fails."""
        return WORKER in self.who

    @property
    def ends_as_another(self) -> bool:
        """Whether another run than the one that was launched brings it to its end."""
        return self.worker_dies or self.errand.waits

    @property
    def tags(self) -> dict[str, str]:
        """Of its launch. A bounce has retries by itself."""
        return {"dagster/max_retries": "1" if self.who == WORKER and not self.by_hand else "0"}

    def is_on(self, storage: Storage) -> bool:
        """Whether the row is one of this storage's."""
        if storage == "sqlite" or self.who != WORKER:
            return True
        return self.errand in (MOVE, VIA) and self.point.is_boundary and not self.whole


def _boundaries(errand: Errand, *ops: str) -> list[Row]:
    """The worker killed after each op, retried by Dagster and re-executed by hand in turn."""
    return [
        Row(errand, WORKER, Point(f"after {op}"), by_hand=bool(n % 2)) for n, op in enumerate(ops)
    ]


def _of_worker(errand: Errand, what: str, *, heard: bool = False, by_hand: bool = False) -> Row:
    return Row(errand, WORKER, Point(what, heard), by_hand)


WORKER_ROWS = (
    *_boundaries(MOVE, "plan_move_container", "reserve", "stop", "move"),
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
    *_boundaries(BOUNCE, "plan_bounce", "bounce"),
    _of_worker(BOUNCE, "reserve 1-0", heard=True),
    _of_worker(BOUNCE, "reserve 0", by_hand=True),
    _of_worker(BOUNCE, "commit 0", heard=True),
    *_boundaries(DRAIN, "plan_drain_host"),
    _of_worker(DRAIN, "place 0", by_hand=True),
    _of_worker(DRAIN, "start_standby 1", heard=True),
    _of_worker(DRAIN, "stop_standby 1-1", by_hand=True),
    _of_worker(DRAIN, "place 1"),
    _of_worker(DRAIN, "processing 1", by_hand=True),
)
_ALL_DONE = (
    (MOVE, "verify_placement"),
    (SWAP, "verify_placement"),
    (VIA, "standbys_after"),
    (BOUNCE, "summarize_bounce"),
    (DRAIN, "drain"),
)
_HELD = (
    (MOVE, Point("after reserve")),
    (SWAP, Point("after move_standby_away")),
    (VIA, Point("after wait_until_warm")),
    (VIA_WAITING, Point("after spin_up")),
    (BOUNCE, Point("reserve 0")),
    (DRAIN, Point("place 0")),
)
ROWS = (
    *(Row(errand, who, point) for who in (DAEMON, CODE) for errand, point in _HELD),
    Row(MOVE, WEBSERVER, Point("after reserve")),
    Row(MOVE, BOTH, Point("after stop"), by_hand=True),
    Row(VIA, BOTH, Point("after give_place"), by_hand=True),
    *WORKER_ROWS,
    *(
        Row(errand, WORKER, Point(f"after {last}"), by_hand=True, whole=True)
        for errand, last in _ALL_DONE
    ),
)


def rows_on(storage: Storage) -> list[Row]:
    """The rows of one stack."""
    return [row for row in ROWS if row.is_on(storage)]
