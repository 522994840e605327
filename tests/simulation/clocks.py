"""Clocks of a virtual world, all derived from one true time that nobody in it can read.

Times are whole milliseconds. A clock's rate is its error in parts per million.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.copies import copied

_MILLION = 1_000_000


@dataclass(slots=True)
class Clock:
    """A clock that started at true time `since` with the value `base`."""

    since: int
    base: int
    ppm: int = 0

    def read(self, true_ms: int) -> int:
        """What it shows at a true time."""
        return self.base + (true_ms - self.since) * (_MILLION + self.ppm) // _MILLION

    def when(self, value: int) -> int:
        """The first true time at which it shows at least `value`."""
        return self.since + -((self.base - value) * _MILLION // (_MILLION + self.ppm))

    def set_rate(self, true_ms: int, ppm: int) -> None:
        """Runs at another rate from now on, without a jump."""
        self.base, self.since, self.ppm = self.read(true_ms), true_ms, ppm


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A leader's word that containers may live for `lease_ms` from when it was asked.

    As in `agent/lease.py`: of boot time and wall time the one that says more has passed counts.
    """

    epoch: int
    lease_ms: int
    boot_ms: int
    wall_ms: int


class HostClocks:
    """CLOCK_BOOTTIME of a host, and its wall clock, which can be set."""

    __slots__ = ("boot", "wall_offset")

    def __init__(self, true_ms: int, ppm: int = 0, wall_offset: int = 0) -> None:
        self.boot = Clock(true_ms, 0, ppm)
        self.wall_offset = wall_offset

    def asked(self, true_ms: int, epoch: int, lease_ms: int) -> LeaseGrant:
        """A grant for an ask that is made now."""
        boot = self.boot.read(true_ms)
        return LeaseGrant(epoch, lease_ms, boot, boot + self.wall_offset)

    def remaining(self, true_ms: int, grant: LeaseGrant | None) -> int:
        """Milliseconds of the lease that are left by this host's clocks; 0 when it is over."""
        if grant is None:
            return 0
        boot = self.boot.read(true_ms)
        elapsed = max(boot - grant.boot_ms, boot + self.wall_offset - grant.wall_ms, 0)
        return max(0, grant.lease_ms - elapsed)

    def ends_at(self, true_ms: int, grant: LeaseGrant) -> int:
        """The true time at which the lease is over, if no clock is set meanwhile."""
        left = self.remaining(true_ms, grant)
        return self.boot.when(self.boot.read(true_ms) + left)

    def paused(self, for_ms: int) -> None:
        """The machine stood still for so long: boot time didn't count it, the wall is set right."""
        lost = for_ms * (_MILLION + self.boot.ppm) // _MILLION
        self.boot.base -= lost
        self.wall_offset += lost

    def copy(self) -> HostClocks:
        """An independent one."""
        return copied(self, boot=copied(self.boot))
