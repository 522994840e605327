"""The lease of a host as a value: how long its containers may live without a renewal."""

from __future__ import annotations

import time
from typing import Any, Dict, NamedTuple, Optional


class Now(NamedTuple):
    """A reading of both clocks, in seconds."""

    boottime_s: float
    wall_s: float


def read_clocks() -> Now:
    """Read both clocks.

    CLOCK_BOOTTIME goes on while the host sleeps; wall time is corrected after a freeze.
    """
    return Now(time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


class Grant(NamedTuple):
    """A leader's grant: containers may live for `lease_s` from the moment of the request.

    The clock that shows more elapsed time counts, so neither a
    suspended host nor a clock set back lengthens a lease. A clock set forward shortens it.

    `began_s`: when (CLOCK_BOOTTIME) the first of an unbroken row of grants was asked for, each
    while the one before was live. None: written by an agent that didn't know it.
    """

    epoch: int
    lease_s: float
    asked: Now
    boot_id: str
    began_s: Optional[float] = None

    def remaining_s(self, now: Now) -> float:
        """Return the seconds that are left, 0 or less when it has ended."""
        elapsed = max(now.boottime_s - self.asked.boottime_s, now.wall_s - self.asked.wall_s, 0.0)
        return self.lease_s - elapsed

    def is_live(self, now: Now) -> bool:
        """Containers may live."""
        return self.remaining_s(now) > 0

    def to_json(self) -> Dict[str, Any]:
        """Return the content of `grant.json`."""
        return {
            "version": 1,
            "epoch": self.epoch,
            "lease_s": self.lease_s,
            "asked_boottime_s": self.asked.boottime_s,
            "asked_wall_s": self.asked.wall_s,
            "boot_id": self.boot_id,
            "began_s": self.began_s,
        }

    @classmethod
    def from_json(cls, value: Optional[Dict[str, Any]], boot_id: str) -> Optional[Grant]:
        """Parse a grant; None for a file that is absent, malformed or of another boot."""
        try:
            assert value is not None
            began_s = value.get("began_s")
            grant = cls(
                int(value["epoch"]),
                float(value["lease_s"]),
                Now(float(value["asked_boottime_s"]), float(value["asked_wall_s"])),
                str(value["boot_id"]),
                None if began_s is None else float(began_s),
            )
        except (AssertionError, KeyError, TypeError, ValueError, OverflowError):
            return None
        return grant if grant.boot_id == boot_id else None

    def follows(self, earlier: Grant) -> bool:
        """Return whether no moment was without a lease since `earlier`.

        A container that lived through such a moment is ended: it may be replaced already.
        """
        return None in (self.began_s, earlier.began_s) or self.began_s == earlier.began_s

    def after(self, held: Optional[Grant]) -> Grant:
        """Return this grant as the successor of the one held at its request."""
        if held is None or not held.is_live(self.asked):
            return self._replace(began_s=self.asked.boottime_s)
        return self._replace(began_s=held.began_s or held.asked.boottime_s)


def longer(held: Optional[Grant], offered: Grant, now: Now) -> Grant:
    """Return the grant that ends later, as replies may overtake each other; a newer leader wins."""
    if held is None or offered.epoch > held.epoch:
        return offered
    if offered.epoch < held.epoch:
        return held
    return offered if offered.remaining_s(now) >= held.remaining_s(now) else held
