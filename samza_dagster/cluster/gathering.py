"""How long whoever may run anywhere waits for hosts to register. Pure.

Kafka's `group.initial.rebalance.delay.ms` is the pattern: the first member to join would
get everything, so each new one makes the group wait a little for the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_LONGEST = 4
"""It ends after this many quiet times since the first host, whoever else may be coming."""


@dataclass
class Gathering:
    """Ends for good once no new host has registered for `quiet_s`; times are in seconds.

    Before the first host registers it hasn't begun, however long that takes.
    """

    quiet_s: float
    over: bool = False
    ends_at: float | None = None
    _latest: float = 0.0
    _seen: set[str] = field(default_factory=set[str])

    def see(self, hosts: Iterable[str], now: float) -> None:
        """Takes who is registered now; whoever comes after the end begins nothing anew."""
        self.over = self.over or (self.ends_at is not None and self.ends_at <= now)
        if self.over:
            return
        new = set(hosts) - self._seen
        if new:
            if not self._seen:
                self._latest = now + _LONGEST * self.quiet_s
            self._seen |= new
            self.ends_at = min(self._latest, now + self.quiet_s)
            self.over = self.ends_at <= now
